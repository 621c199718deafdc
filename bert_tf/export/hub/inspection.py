"""Inspects what a SavedModel would do from its graph alone, without loading or running it."""

import dataclasses
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator

from tensorflow.core.framework import function_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.export.hub import graph_check
from bert_tf.export.hub.file_reads import reads_of_other_files, source_of
from bert_tf.export.hub.graph_bounds import functions_of, named_in, reachable
from bert_tf.export.hub.graph_check import printable
from bert_tf.utils.json_files import read_object

_GRAPH, _LAYERS = "saved_model.pb", "config.json"
_OTHER_GRAPHS = ("saved_model.pbtxt", "saved_model.cpb")  # which TensorFlow would read as well
_MOST_BYTES = 2**31  # of a graph, which is one protocol buffer
_MOST_LAYERS_BYTES = 64 * 2**20
_LOOPS = ("While", "StatelessWhile", "NextIteration")
_PATH = re.compile(rb"(/|~/|\.\.?/|[A-Za-z][\w+.-]*://)\S[^\0\n]{0,400}")
# Additional operations of TensorFlow 1 graphs, which run in their own session.
_TF1 = frozenset({
    "Assign", "AssignAdd", "AssignSub", "Enter", "Exit", "HashTable", "InitializeTable", "InitializeTableFromTextFile",
    "LookupTableFind", "LookupTableSize", "LoopCond", "NextIteration", "RefEnter", "RefExit", "RefIdentity", "RefMerge",
    "RefNextIteration", "RefSwitch", "Variable", "VariableV2",
})  # fmt: skip
_RESTORES = _TF1 | {"Restore", "RestoreV2"}  # the values of variables, from the model's own files


@dataclasses.dataclass(frozen=True)
class Inspection:
    """Findings about a SavedModel or a .keras file.

    Attributes:
        signatures: one line per signature: name, inputs, outputs.
        layers: classes that Keras would create, for a `.keras` file.
        files: paths in the model's directory that its graph names.
        paths: constants and attributes that look like paths or addresses.
        sizes: lines on functions, operations, loops and bytes.
        operations: names of all operations that can run.
        faults: what the model does besides computing; empty if it only computes.
    """

    signatures: list[str] = dataclasses.field(default_factory=list)
    layers: list[str] = dataclasses.field(default_factory=list)
    files: list[str] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)
    sizes: list[str] = dataclasses.field(default_factory=list)
    operations: list[str] = dataclasses.field(default_factory=list)
    faults: list[str] = dataclasses.field(default_factory=list)


def inspect_model(path: str) -> dict[str, Inspection]:
    """Returns {location: Inspection} of a SavedModel's directory, or of the layers and graphs in a `.keras` file.

    Raises:
        ValueError: it contains neither, or a member is too large.
    """
    if not os.path.isdir(path):
        try:
            with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="bert_tf-") as folder:
                parts = dict(_inspect_archive(archive, path, folder))
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} is neither a directory with {_GRAPH} nor a .keras file: {error}.") from error
    elif os.path.isfile(os.path.join(path, _GRAPH)):
        parts = dict(_inspect_folder(path, path, path))
    else:  # a .keras file that was unpacked
        parts = {}
        if os.path.isfile(os.path.join(path, _LAYERS)):
            parts[os.path.join(path, _LAYERS)] = _inspect_layers(os.path.join(path, _LAYERS))
        for folder, _, names in os.walk(path):
            if _GRAPH in names:
                parts |= _inspect_folder(folder, folder, folder)
    if not parts:
        raise ValueError(
            f"{path} contains neither a TensorFlow graph ({_GRAPH}) nor Keras layers ({_LAYERS}). Pass "
            "the directory of a SavedModel or a .keras file."
        )
    return parts


def _inspect_archive(archive, path, folder):
    """Yields (where, Inspection) of a `.keras` file's members, each of which is inspected in `folder`."""
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise ValueError(
            f"{path} contains two members with the same name, of which some readers take the "
            "first and others the last. Do not load this file."
        )
    for member in members:
        name = os.path.basename(member.filename)
        if name not in (_GRAPH, *_OTHER_GRAPHS) and member.filename != _LAYERS:
            continue
        if member.file_size > (_MOST_LAYERS_BYTES if name == _LAYERS else _MOST_BYTES):
            raise ValueError(
                f"{path} contains {member.filename} with {member.file_size} "
                "bytes, which is too large to inspect. Do not load this file."
            )
        target = os.path.join(folder, name)
        with archive.open(member) as packed, open(target, "wb") as file:
            shutil.copyfileobj(packed, file)
        where = f"{path}:{printable(member.filename)}"
        if name == _LAYERS:
            yield where, _inspect_layers(target)
        elif name == _GRAPH:
            yield from _inspect_folder(folder, where, None)
        os.unlink(target)


def _inspect_folder(folder, where, files):
    """Yields (where, Inspection) of each graph in a SavedModel; `files` is the directory with its files, if any."""
    graphs = graph_check.read_graphs(folder)
    others = [f"{name}, another graph, which was not inspected" for name in _OTHER_GRAPHS if
              os.path.exists(os.path.join(folder, name))]  # fmt: skip
    for graph in graphs:
        tags = f" ({', '.join(graph.meta_info_def.tags)})" if len(graphs) > 1 else ""
        found = _inspect_graph(graph, files)
        found.faults.extend(others)
        yield f"{where}{tags}", found


def _inspect_graph(graph: meta_graph_pb2.MetaGraphDef, folder: str | None) -> Inspection:
    functions = functions_of(graph)
    answering = _part(graph, "the graph of the signatures", _answering(graph))
    restoring = _part(graph, "the graph that restores", [graph.saver_def.restore_op_name], answering)
    faults = [*graph_check.faults(graph), *(f"the asset {name}" for name in graph_check.assets_outside(graph, folder))]
    assets = {source_of(asset.tensor_info.name) for asset in graph.asset_file_def}
    checkpoint = {source_of(graph.saver_def.filename_tensor_name)}
    for part, besides, files in ((answering, _TF1, _names_of_files(answering, assets)),
                                 (restoring, _RESTORES, checkpoint)):  # fmt: skip
        called = {name: functions[name] for name in _called_by(part, functions)}
        faults += graph_check.faults_of_nodes(functions, part.node_def, part.signature.name, besides=besides)
        for name in called if part is restoring else ():
            faults += graph_check.faults_of_nodes(functions, called[name].node_def, name, besides=besides)
        faults += reads_of_other_files(called, [(part, files)])
    others = set(functions) - graph_check.savers_of(graph, functions)
    can_run = [*answering.node_def, *(node for name in sorted(others) for node in functions[name].node_def)]
    return _printable(
        signatures=[_signature(name, each) for name, each in sorted(graph.signature_def.items()) if each.inputs],
        files=[os.path.join("assets", asset.filename) for asset in graph.asset_file_def],
        paths=sorted(set(_paths(can_run))),
        sizes=[
            f"{graph.ByteSize():,} bytes, {len(functions):,} functions, {len(can_run):,} operations, "
            f"{sum(node.op in _LOOPS for node in can_run):,} loops"
        ],
        operations=sorted({node.op for node in can_run} - set(functions)),
        faults=sorted(set(faults)),
    )


def _called_by(part, functions):
    return sorted(reachable(functions, (each for node in part.node_def for each in named_in(node))))


def _answering(graph) -> Iterator[str]:
    """Yields the tensors and operations that a server fetches, or runs after loading the model."""
    for signature in graph.signature_def.values():
        for info in (*signature.outputs.values(), *signature.inputs.values()):
            yield info.name
            sparse = info.coo_sparse
            yield from (sparse.values_tensor_name, sparse.indices_tensor_name, sparse.dense_shape_tensor_name)
            yield from (component.name for component in info.composite_tensor.components)
    for collection in ("saved_model_main_op", "legacy_init_op"):
        if collection in graph.collection_def:
            yield from graph.collection_def[collection].node_list.value


def _part(graph, name, ends: Iterable[str], known: function_pb2.FunctionDef | None = None) -> function_pb2.FunctionDef:
    """Returns the operations that some tensors depend on, except those of `known`, as a function without arguments."""
    nodes = {node.name: node for node in graph.graph_def.node}
    seen = {node.name for node in known.node_def} if known else set()
    part, open_ = function_pb2.FunctionDef(), list(ends)
    part.signature.name = name
    while open_:
        each = source_of(open_.pop().lstrip("^"))
        if each in nodes and each not in seen:
            seen.add(each)
            part.node_def.append(nodes[each])
            open_ += nodes[each].input
    return part


def _names_of_files(part, files):
    """Returns the tensors that contain names of the model's files: initialization stores them in variables."""
    kept, others = set(), set()
    for node in part.node_def:
        if node.op == "AssignVariableOp" and len(node.input) > 1:
            (kept if source_of(node.input[1]) in files else others).add(node.input[0])
    reads = (node for node in part.node_def if node.op == "ReadVariableOp" and node.input)
    return files | {node.name for node in reads if node.input[0] in kept - others}


def _paths(nodes):
    """Yields constants and attributes that look like paths or addresses."""
    for node in nodes:
        for value in node.attr.values():
            for text in (value.s, *value.list.s, *value.tensor.string_val[:16]):
                if _PATH.fullmatch(text):
                    yield f"{text.decode(errors='backslashreplace')!a} in {node.op} {node.name}"


def _signature(name, definition):
    sides = (", ".join(map(_tensor, sorted(side.items()))) for side in (definition.inputs, definition.outputs))
    return f"{name}: {' -> '.join(sides)}"


def _tensor(item):
    name, info = item
    number = types_pb2.DataType.DESCRIPTOR.values_by_number.get(info.dtype)
    kind = number.name.removeprefix("DT_").lower() if number else "of no type"
    if info.tensor_shape.unknown_rank:
        return f"{name} {kind}"
    return f"{name} {kind} [{', '.join('?' if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim)}]"


def _inspect_layers(path):
    """Returns the classes that a `.keras` file's config.json makes Keras create."""
    config = read_object(path, "a model of Keras", "do not load it", _MOST_LAYERS_BYTES)
    layers, faults, open_ = set(), set(), [config]
    while open_:
        value = open_.pop()
        if isinstance(value, dict):
            open_ += value.values()
            if isinstance(value.get("class_name"), str):
                name, package = value["class_name"], _package(value)
                layers.add(f"{package}.{name}")
                if name in ("Lambda", "__lambda__"):
                    faults.add(f"{name}, which runs Python code from the file")
                elif package.partition(".")[0] not in ("keras", "bert_tf", "builtins"):
                    faults.add(f"{package}.{name}, which belongs to neither Keras nor bert_tf")
        elif isinstance(value, list):
            open_ += value
    return _printable(layers=sorted(layers), faults=sorted(faults))


def _printable(**found):
    return Inspection(**{name: [printable(line) for line in lines] for name, lines in found.items()})


def _package(value):
    """Returns the module of a class; its package if it is registered without a module."""
    module, registered = value.get("module"), value.get("registered_name")
    if isinstance(module, str):
        return module
    return registered.partition(">")[0] if isinstance(registered, str) else "keras"
