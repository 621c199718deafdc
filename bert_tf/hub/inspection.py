"""What a SavedModel would do, told from its graph alone: nothing of it is loaded or run."""

import dataclasses
import os
import tempfile
import zipfile
from collections.abc import Iterator

from tensorflow.core.framework import function_pb2, types_pb2

from bert_tf.hub import safety

_GRAPH = "saved_model.pb"
_MOST_BYTES = 2**31  # of a graph, which is one protocol buffer


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What was found.

    Attributes:
        signatures: lines of what a server offers: name, inputs, outputs.
        operations: names of all operations that can run.
        files: paths in the model's folder that its graph names.
        faults: what it does besides computing; empty for a model that only computes.
        loops: loops whose end data decides.
    """

    signatures: list[str]
    operations: list[str]
    files: list[str]
    faults: list[str]
    loops: list[str]


def inspect_model(path: str) -> dict[str, Inspection]:
    """Returns {where: Inspection} of a SavedModel's folder, or of each graph in a `.keras` file.

    Raises:
        ValueError: there is no graph in it.
    """
    if os.path.isdir(path):
        return {path: _inspected(safety.read_graphs(path)[0])}
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
            found = {}
            for member in archive.infolist():
                if os.path.basename(member.filename) == _GRAPH and member.file_size < _MOST_BYTES:
                    with open(os.path.join(folder, _GRAPH), "wb") as file:
                        file.write(archive.read(member))
                    found[member.filename] = _inspected(safety.read_graphs(folder)[0])
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} must be a folder with {_GRAPH} or a .keras file. Received: {error}.") from error
    if not found:
        raise ValueError(f"{path} must hold a graph of TensorFlow, {_GRAPH}. Received a file without: it runs none.")
    return found


def _inspected(graph):
    functions = safety.functions_of(graph)
    nodes = list(_run_by_signatures(graph))
    called = safety.reachable(functions, (each for node in nodes for each in safety.named_in(node)))
    inner = [node for name in called for node in functions[name].node_def]
    faults = [*safety.faults_of_nodes(functions, nodes, "the graph of the signatures")]
    for name in sorted(called):
        faults += safety.faults_of_nodes(functions, functions[name].node_def, name)
    whole = function_pb2.FunctionDef(node_def=nodes)
    faults += safety.tables_of_other_files(functions, [(whole, _names_of_files(graph, nodes))])
    if graph.HasField("object_graph_def"):
        faults += safety.faults(graph, with_loops=False)
    names = sorted({node.op for node in (*nodes, *inner)} - set(functions))
    return Inspection(
        [_signature(name, each) for name, each in sorted(graph.signature_def.items()) if each.inputs],
        names,
        [os.path.join("assets", asset.filename) for asset in graph.asset_file_def],
        sorted(set(faults) | {f"the asset {name}" for name in safety.assets_outside(graph)}),
        list(safety.open_loops(functions, called)),
    )


def _run_by_signatures(graph) -> Iterator:
    """Yields the operations outside of functions that signatures and initialization run, not those of a saver."""
    nodes = {node.name: node for node in graph.graph_def.node}
    ends = [info.name for each in graph.signature_def.values() for info in each.outputs.values()]
    for collection in ("saved_model_main_op", "legacy_init_op"):
        ends += graph.collection_def[collection].node_list.value if collection in graph.collection_def else []
    seen, open_ = set(), [end.partition(":")[0] for end in ends]
    while open_:
        name = open_.pop().lstrip("^").partition(":")[0]
        if name in nodes and name not in seen:
            seen.add(name)
            yield nodes[name]
            open_ += nodes[name].input


def _names_of_files(graph, nodes):
    """Returns the tensors that hold names of the model's files: initialization keeps them in variables."""
    files = {asset.tensor_info.name.partition(":")[0] for asset in graph.asset_file_def}
    kept, others = set(), set()
    for node in nodes:
        if node.op == "AssignVariableOp":
            (kept if node.input[1].partition(":")[0] in files else others).add(node.input[0])
    return files | {node.name for node in nodes if node.op == "ReadVariableOp" and node.input[0] in kept - others}


def _signature(name, definition):
    sides = (", ".join(map(_tensor, sorted(side.items()))) for side in (definition.inputs, definition.outputs))
    return f"{name}: {' -> '.join(sides)}"


def _tensor(item):
    name, info = item
    kind = types_pb2.DataType.Name(info.dtype).removeprefix("DT_").lower()
    if info.tensor_shape.unknown_rank:
        return f"{name} {kind}"
    return f"{name} {kind} [{', '.join('?' if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim)}]"
