"""Which files a graph reads, by functions that are written down here."""

from tensorflow.core.framework import function_pb2

from bert_tf.export.hub.graph_check import reads_of_other_files


def _function(name, arguments, *nodes):
    """Returns a function; a node is (name, operation, inputs), and `call:g` an operation that calls g."""
    function = function_pb2.FunctionDef()
    function.signature.name = name
    for argument in arguments:
        function.signature.input_arg.add(name=argument)
    for node_name, op, inputs in nodes:
        op, _, called = op.partition(":")
        node = function.node_def.add(name=node_name, op=op, input=inputs)
        if called:
            node.attr["f"].func.name = called
    return function


_READ = ("read", "InitializeTableFromTextFileV2", ["table", "name:output:0"])
_SAID = "InitializeTableFromTextFileV2 of a file that is no asset of the model, read in g"


def _found(start, *functions, files=("asset",)):
    functions = {each.signature.name: each for each in (start, *functions)}
    return reads_of_other_files(functions, [(start, set(files))])


def test_an_asset_is_followed_through_calls():
    start = _function("f", ["asset"], ("a", "Identity", ["asset"]), ("b", "Identity", ["a:output:0"]),
                      ("c", "StatefulPartitionedCall:g", ["b:output:0", "asset"]))  # fmt: skip
    through = _function("g", ["one", "two"], ("name", "Identity", ["one"]), _READ)
    assert _found(start, through) == []
    assert _found(start, through, files=()) == [_SAID]


def test_other_names_are_not():
    reads = _function("g", ["one"], ("name", "Identity", ["one"]), _READ)
    call = "PartitionedCall:g"
    cases = {
        "a constant": _function("f", ["asset"], ("k", "Const", []), ("c", call, ["k:output:0"])),
        "a computed one": _function("f", ["asset"], ("k", "StringJoin", ["asset"]), ("c", call, ["k:output:0"])),
        "another argument": _function("f", ["asset", "x"], ("c", call, ["x"])),
        "once the asset, once not": _function("f", ["asset", "x"], ("c", call, ["asset"]), ("d", call, ["x"])),
        "none": _function("f", ["asset"], ("c", call, [])),
        "a branch": _function("f", ["asset"], ("c", "If:g", ["asset"])),
        "nobody calls it": _function("f", ["asset"]),
        "a circle": _function("f", ["asset"], ("a", "Identity", ["b"]), ("b", "Identity", ["a"]), ("c", call, ["a"])),
    }
    for case, start in cases.items():
        assert _found(start, reads) == [_SAID], case
    own = _function("g", ["asset"], ("name", "Const", []), _READ)
    assert _found(own) == [_SAID]
    assert _found(_function("g", ["asset"], ("read", "InitializeTableFromTextFileV2", ["table"]))) == [_SAID]
    restore = _function("g", ["asset"], ("k", "Const", []), ("r", "RestoreV2", ["k:output:0", "names", "slices"]))
    assert _found(restore) == ["RestoreV2 of a file that is no asset of the model, r in g"]


def test_many_ways_to_a_function_take_no_more_time_than_calls():
    """Each level passes its arguments on once as they are and once with one that is no asset: 2^60 ways."""
    names = [f"a{n}" for n in range(60)]
    levels = [_function("g", names, ("name", "Identity", ["a59"]), _READ)]
    for n in range(60):
        last = levels[-1].signature.name
        other = [*names[:n], "k", *names[n + 1 :]]
        call = f"PartitionedCall:{last}"
        levels.append(_function(f"h{n}", names, ("k", "Const", []), ("c", call, names), ("d", call, other)))
    start = levels.pop()
    assert _found(start, *levels, files=names) == [_SAID]
