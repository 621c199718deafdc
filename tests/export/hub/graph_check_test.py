"""What a graph in somebody else's file may do: compute. Each attack is refused before anything of it has run."""

import math
import os

import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2, op_def_pb2, tensor_pb2, types_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow_text.python.ops import trimmer_ops

from bert_tf.export.hub import graph_check
from bert_tf.export.hub.allowed_operations import COMPUTES, LOADS
from bert_tf.export.hub.file_reads import reads_of_other_files
from bert_tf.export.hub.graph_bounds import bytes_of
from tests.export.hub import hostile
from tests.export.hub.hostile import AtLoad, Model, Table


def _fills():
    return AtLoad(lambda: tf.debugging.assert_greater(tf.reduce_sum(tf.fill([2**10, 2**10], 1.0)), 0.0))


def _prints(ids):
    tf.raw_ops.PrintV2(input=tf.constant("x"))
    return tf.identity(ids)


MODULES = {  # others: `keras_file_test`
    "large when it is loaded": (lambda: Model(lambda ids: ids, _fills), r"Fill in \S+, which runs when the model"),
    "prints": (lambda: Model(_prints), r"PrintV2 in "),
}


@pytest.mark.parametrize("attack", MODULES)
def test_a_module_that_does_more_than_compute_is_refused(attack, tmp_path):
    make, words = MODULES[attack]
    hostile.save(make(), tmp_path / "hub")
    with pytest.raises(ValueError, match=rf"because it does more than compute: .*{words}.*; if you trust it, create"):
        graph_check.check_saved_model(str(tmp_path / "hub"))


def _no_polymorphic(graph):
    """Has the functions that run at loading be called without the list of those with other arguments."""
    nodes = graph.object_graph_def.nodes
    for child in (child for node in nodes for child in node.children if child.local_name == "_initialize"):
        (name,) = nodes[child.node_id].function.concrete_functions
        nodes[child.node_id].bare_concrete_function.concrete_function_name = name


def _behind_an_object(graph):
    """Has what runs at loading be an object whose `__call__` is the function."""
    nodes = graph.object_graph_def.nodes
    for child in [child for node in nodes for child in node.children if child.local_name == "_initialize"]:
        between = nodes.add()
        between.user_object.identifier = "_generic_user_object"
        between.children.add(node_id=child.node_id, local_name="__call__")
        child.node_id = len(nodes) - 1


@pytest.mark.parametrize("change", [_no_polymorphic, _behind_an_object])
def test_what_runs_at_loading_is_found_however_it_hangs_there(change, tmp_path):
    folder = hostile.save(Model(lambda ids: ids, _fills), tmp_path / "hub")
    hostile.edit(folder, change)
    tf.saved_model.load(str(folder))  # runs it
    with pytest.raises(ValueError, match=r"Fill in \S+, which runs when the model is loaded"):
        graph_check.check_saved_model(str(folder))


def _hidden(graph):
    """Adds a function that writes, and that nothing calls."""
    function = graph.graph_def.library.function.add()
    function.signature.name = "__inference_hidden_7"
    function.node_def.add(name="write", op="WriteFile")


def _in_an_argument_of_a_function(graph):
    _hidden(graph)
    hostile.add_call(hostile.initializer(graph), "__inference_hidden_7")
    func = hostile.initializer(graph).node_def[-1].attr["f"].func
    func.name, func.attr["g"].func.name = hostile.initializer(graph).signature.name, "__inference_hidden_7"


def _has_a_name_of_tensorflows(graph):
    function = graph.graph_def.library.function.add()
    function.signature.name = "DumpTensor"
    hostile.initializer(graph).node_def.add(name="dump", op="DumpTensor")


def _twice(graph):
    function = graph.graph_def.library.function.add()
    function.CopyFrom(hostile.initializer(graph))
    function.node_def.add(name="write", op="WriteFile")


def _exchanged(graph):
    """Lets an optimizer of graphs take the function that saves variables for another one."""
    for function in graph.graph_def.library.function:
        if "save" in function.signature.name:
            function.attr["api_implements"].s = b"anything"


def _shares(graph):
    for node in hostile.initializer(graph).node_def:
        node.attr["container"].s = b"another_model"


def _left_open(graph):
    hostile.initializer(graph).node_def[0].attr["T"].placeholder = "T"


def _stretch(graph):
    for tensor in hostile.constants(graph):
        tensor.ClearField("tensor_content")
        tensor.int64_val[:] = [0]
        tensor.tensor_shape.dim[0].size = 2**31


def _double(graph, levels=40, last=None):
    """Has each of some functions call the one before it twice, and what runs at loading call the last of them."""
    name = last
    for level in range(levels):
        function = graph.graph_def.library.function.add()
        function.signature.name = f"__inference_level_{level}"
        for _ in range(2):
            if name:
                hostile.add_call(function, name)
        name = function.signature.name
    hostile.add_call(hostile.initializer(graph), name)


def _double_constants(graph):
    """Has a constant of 64 MB, which is permitted, be made 1,024 times."""
    function = graph.graph_def.library.function.add()
    function.signature.name = "__inference_constant"
    tensor = function.node_def.add(name="constant", op="Const").attr["value"].tensor
    tensor.dtype, tensor.int64_val[:] = types_pb2.DT_INT64, [0]
    tensor.tensor_shape.dim.add(size=2**23)
    _double(graph, 10, function.signature.name)


def _calls_itself(graph):
    hostile.add_call(hostile.initializer(graph), hostile.initializer(graph).signature.name)


def _handle(graph):
    hostile.constants(graph)[0].dtype = types_pb2.DT_RESOURCE


def _stretches_a_bound(graph):
    """A value in the description of an argument, of which TensorFlow makes an array."""
    concrete = next(iter(graph.object_graph_def.concrete_functions.values()))
    value = concrete.canonicalized_input_signature.tuple_value.values.add()
    tensor = value.bounded_tensor_spec_value.minimum
    tensor.dtype, tensor.float_val[:] = types_pb2.DT_FLOAT, [0.0]
    tensor.tensor_shape.dim.add(size=2**40)


GRAPHS = {
    "nothing calls it": (_hidden, "WriteFile in __inference_hidden_7"),
    "an argument of a function": (_in_an_argument_of_a_function, "WriteFile in __inference_hidden_7, which runs when"),
    "a function with a name of TensorFlow's": (_has_a_name_of_tensorflows, "DumpTensor in __inference"),
    "two functions of one name": (_twice, "functions of the same name"),
    "one function in place of another": (_exchanged, r"SaveV2 in __inference__traced_save_\d+"),
    "resources of others": (_shares, "with a container, which other models share"),
    "an attribute left open": (_left_open, "with an attribute set by its caller, in"),
    "an asset elsewhere": (lambda graph: graph.asset_file_def.add(filename="../../passwd"), r"the asset \.\./\.\./pas"),
    "an asset without an end": (lambda graph: graph.asset_file_def.add(filename="/dev/zero"), "the asset /dev/zero"),
    "an asset that is not there": (lambda graph: graph.asset_file_def.add(filename="a\x1b[2Jb"), r"asset a\\x1b\[2Jb"),
    "16 GB in 9 bytes": (_stretch, "constants that take far more memory than their file"),
    "2^40 calls": (_double, r"nested calls with more than 1048576 operations, __inference_level_\d+"),
    "64 GB by calls": (_double_constants, "nested calls whose constants take far more memory than their file,"),
    "a circle": (_calls_itself, "a function that calls itself, __inference"),
    "a handle": (_handle, "a handle as a constant, "),
    "4 TB in a signature": (_stretches_a_bound, "constants that take far more .*, a signature the most"),
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return (hostile.save(Table(), tmp_path_factory.mktemp("table")) / "saved_model.pb").read_bytes()


@pytest.mark.parametrize("attack", GRAPHS)
def test_a_graph_made_by_hand_is_refused(attack, table, tmp_path):
    change, words = GRAPHS[attack]
    (tmp_path / "saved_model.pb").write_bytes(table)
    graph_check.check_saved_model(str(tmp_path))
    hostile.edit(tmp_path, change)
    with pytest.raises(ValueError, match=rf"does more than compute: .*{words}.*; if you trust it, create the layer"):
        graph_check.check_saved_model(str(tmp_path))


def test_assets_are_files_of_the_models_folder(table, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(table)
    hostile.edit(tmp_path, lambda graph: graph.asset_file_def.add(filename="sub/vocab.txt"))
    path = tmp_path / "assets" / "sub" / "vocab.txt"
    path.parent.mkdir(parents=True)
    path.write_text("a\n")
    graph_check.check_saved_model(str(tmp_path))
    for make in (lambda: path.symlink_to("/etc/passwd"), lambda: os.mkfifo(path), path.mkdir):
        path.unlink()
        make()
        with pytest.raises(ValueError, match=r"compute: the asset sub/vocab\.txt"):
            graph_check.check_saved_model(str(tmp_path))


def _vocabulary(path):
    path.write_text("a\nb\n")
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    return tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(path), tf.string, whole, tf.int64, number), -1)


def test_what_only_computes_passes(tmp_path):
    looks_up = Model(None, lambda: _vocabulary(tmp_path / "vocab.txt"))
    looks_up.function = lambda ids: ids + tf.cast(looks_up.made.lookup(tf.constant("b")), tf.int32)
    # Google's preprocessors cut pairs with this loop, whose end the texts decide.
    cuts = Model(lambda ids: ids + trimmer_ops._round_robin_allocation(ids[:, :2], tf.constant(7))[:, :1])
    for n, module in enumerate((looks_up, cuts, Model(lambda ids: tf.map_fn(lambda x: x + 1, ids)))):
        graph_check.check_saved_model(str(hostile.save(module, tmp_path / str(n))))


def _all_operations():
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {each.name: each for each in op_def_pb2.OpList.FromString(buffer).op}


def test_no_permitted_operation_is_told_of_files_or_machines():
    """By the names of attributes and inputs, of which `filename` of a table is looked at by itself."""
    known = _all_operations()
    assert known.keys() >= COMPUTES and LOADS < COMPUTES
    words = ("file", "path", "dir", "url", "address", "server", "program", "python", "prefix", "protocol", "dataset")
    found = {(name, each.name) for name in COMPUTES for each in (*known[name].attr, *known[name].input_arg)
             if any(word in each.name.lower() for word in words)}  # fmt: skip
    assert found == {("InitializeTableFromTextFileV2", "filename")}
    assert {"WriteFile", "ReadFile", "DumpTensor", "FixedUnigramCandidateSampler", "PyFunc", "EagerPyFunc",
            "XlaCustomCallV2", "TextLineDataset", "SaveV2", "RestoreV2"} <= known.keys() - COMPUTES  # fmt: skip


# What TF Hub's preprocessors and encoders of text hold, those of tensorflow-text of their day among them.
GOOGLES = """
    All Any Assert AddV2 BatchMatMulV2 BiasAdd Cast CaseFoldUTF8 ConcatV2 Const Cumsum Einsum Equal Erf ExpandDims Fill
    GatherNd GatherV2 GreaterEqual HashTableV2 Identity If InitializeTableFromTextFileV2 Less LogicalAnd
    LookupTableFindV2 LookupTableSizeV2 MatMul Max Maximum Mean Min Minimum Mul NormalizeUTF8 NoOp NotEqual Pack
    PartitionedCall Pow Prod RaggedGather RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv
    RegexSplitWithOffsets Reshape ResourceGather Rsqrt SegmentSum Select SelectV2 SentencepieceOp
    SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp Shape Slice Softmax SplitV SquaredDifference Squeeze
    StatefulPartitionedCall StatelessIf StatelessWhile StaticRegexReplace StopGradient StridedSlice Sub Sum Tanh
    TensorScatterAdd Tile Transpose Unpack VarHandleOp Where While WordpieceTokenizeWithOffsets ZerosLike
"""


def test_googles_operations_are_permitted():
    assert set(GOOGLES.split()) <= COMPUTES
    assert {"HashTableV2", "InitializeTableFromTextFileV2", "SentencepieceOp", "NoOp", "Const", "Identity"} <= LOADS


def test_bytes_in_memory():
    def tensor(dtype, *dims):
        made = tensor_pb2.TensorProto(dtype=dtype)
        for size in dims:
            made.tensor_shape.dim.add(size=size)
        return made

    assert bytes_of(tensor(types_pb2.DT_FLOAT)) == 4 and bytes_of(tensor(types_pb2.DT_INT64, 3, 5)) == 120
    assert bytes_of(tensor(types_pb2.DT_STRING, 2)) == 48 and bytes_of(tensor(types_pb2.DT_HALF, 0, 2**40)) == 0
    assert bytes_of(tensor(12345, 2)) == 32
    assert bytes_of(tensor(types_pb2.DT_FLOAT, -1)) == bytes_of(tensor(types_pb2.DT_FLOAT, *[1] * 255)) == math.inf


# Which files a graph reads, by functions that are written down here.


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
_FAULT = "InitializeTableFromTextFileV2 of a file that is not an asset of the model, read in g"


def _found(start, *functions, files=("asset",)):
    functions = {each.signature.name: each for each in (start, *functions)}
    return reads_of_other_files(functions, [(start, set(files))])


def test_an_asset_is_followed_through_calls():
    start = _function("f", ["asset"], ("a", "Identity", ["asset"]), ("b", "Identity", ["a:output:0"]),
                      ("c", "StatefulPartitionedCall:g", ["b:output:0", "asset"]))  # fmt: skip
    through = _function("g", ["one", "two"], ("name", "Identity", ["one"]), _READ)
    assert _found(start, through) == []
    assert _found(start, through, files=()) == [_FAULT]


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
        assert _found(start, reads) == [_FAULT], case
    own = _function("g", ["asset"], ("name", "Const", []), _READ)
    assert _found(own) == [_FAULT]
    assert _found(_function("g", ["asset"], ("read", "InitializeTableFromTextFileV2", ["table"]))) == [_FAULT]
    restore = _function("g", ["asset"], ("k", "Const", []), ("r", "RestoreV2", ["k:output:0", "names", "slices"]))
    assert _found(restore) == ["RestoreV2 of a file that is not an asset of the model, r in g"]


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
    assert _found(start, *levels, files=names) == [_FAULT]
