"""Files that a graph reads: names are traced from the model's assets to the operations that open them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tensorflow.core.framework import function_pb2

from bert_tf.export.hub.graph_bounds import Functions, named_in

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# The operations that read files, and which of their inputs is the file name.
_NAMES_A_FILE = {"InitializeTableFromTextFile": 1, "InitializeTableFromTextFileV2": 1, "RestoreV2": 0}


def reads_of_other_files(
    functions: Functions, starts: Iterable[tuple[function_pb2.FunctionDef, set[str]]]
) -> list[str]:
    """Returns a description of each operation that may read a file outside the model.

    A name must come from an asset unchanged, through functions that are called by name. The time is proportional to the
    graph's size, whatever the calls.

    Args:
        functions: of the graph.
        starts: (function, its tensors that are names of the model's files) of all entry points.
    """
    given = {function.signature.name: files for function, files in starts}
    bodies = dict(functions) | {function.signature.name: function for function, _ in starts}
    passed, reads, spoiled, called = defaultdict(list), [], set(), set()
    for name, function in bodies.items():
        origins = _origins(function)
        known = {argument.name for argument in function.signature.input_arg} | given.get(name, set())
        for node in function.node_def:
            names = (origins.get(source, source) for source in map(source_of, node.input))
            sources = [(name, each) if each in known else None for each in names]
            if node.op in _NAMES_A_FILE:
                number = _NAMES_A_FILE[node.op]
                reads.append((f"{node.op} of a file that is not an asset of the model, {node.name} in {name}",
                              sources[number] if number < len(sources) else None))  # fmt: skip
            for other in (each for each in named_in(node) if each in functions):
                arguments = functions[other].signature.input_arg
                called.add(other)
                if node.op not in _CALLS or node.attr["f"].func.name != other or len(arguments) > len(sources):
                    spoiled.add(other)  # branches and loop bodies do not receive file names
                    continue
                for source, argument in zip(sources, arguments, strict=False):
                    passed[source].append((other, argument.name))
    bad = _never_files(bodies, given, called, spoiled) | {None}
    open_ = list(bad)
    while open_:
        more = [each for each in passed.pop(open_.pop(), ()) if each not in bad]
        bad.update(more)
        open_ += more
    return sorted({sentence for sentence, source in reads if source in bad})


def source_of(tensor: str) -> str:
    """Returns the argument or operation in "name:output:0"."""
    return tensor.partition(":")[0]


def _never_files(
    bodies: Functions, given: Mapping[str, set[str]], called: set[str], spoiled: set[str]
) -> set[tuple[str, str] | None]:
    """Returns (function, argument) of those that an outside or unknown caller may set to any text."""
    return {
        (name, argument.name)
        for name, function in bodies.items()
        if name in given or name in spoiled or name not in called
        for argument in function.signature.input_arg
        if name in spoiled or argument.name not in given.get(name, set())
    }


def _origins(function):
    """Returns operation -> the argument or operation whose result it passes on unchanged."""
    nodes = (node for node in function.node_def if node.op == "Identity" and node.input)
    passing = {node.name: source_of(node.input[0]) for node in nodes}
    origins = {}
    for name in passing:
        way = []
        while name in passing and name not in origins:
            way.append(name)
            origins[name] = name  # remains in a cycle
            name = passing[name]
        origins.update(dict.fromkeys(way, origins.get(name, name)))
    return origins
