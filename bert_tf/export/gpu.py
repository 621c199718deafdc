"""A task's model for GPUs: requests of any size are padded to one of a few shapes, so XLA needs only a few programs.

The graph does not force XLA compilation, which a server rejects unless it was started with XLA enabled. It runs as it
is, and if the server lets XLA choose what to compile (docs/guides/gpu.md), XLA compiles only the model. Compiling
takes seconds for each shape of the inputs. So the graph rounds rows and widths up, and warm-up requests of every shape
make sure that the programs are ready before a version serves.
"""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.export.cpu.model import Forward

SEQUENCES = ("input_ids", "input_mask", "segment_ids")  # the features whose last axis is that of the tokens
_NARROWEST = 16  # tokens; a narrower sequence takes as long on a GPU
_MOST_ROWS = 32  # of warm-up requests; larger ones are rounded up too, and compiled at their first request

_MODEL = "model_for_xla"  # in the name of the function that XLA may compile


def widths(longest: int) -> list[int]:
    """Returns the widths that sequences are rounded up to, ascending: powers of two, and the longest itself."""
    powers = [2**n for n in range(_NARROWEST.bit_length() - 1, longest.bit_length()) if 2**n < longest]
    return [*powers, longest]


def warm_up_shapes(longest: int, max_seq_length: int) -> list[tuple[int, int]]:
    """Returns (rows, width) of the shapes for warm-up: all those of requests with few rows.

    Args:
        longest: the longest sequence that the model has positions for.
        max_seq_length: the longest sequence of a text.
    """
    every = widths(longest)
    wide = every[: 1 + sum(each < max_seq_length for each in every)]
    return [(2**n, width) for width in wide for n in range(_MOST_ROWS.bit_length())]


def with_rounded_shapes(forward: Forward, inputs: Sequence[tf.TensorSpec], longest: int) -> Forward:
    """Returns a function that gives the same results but computes in only a few shapes: it pads inputs, trims outputs.

    Rows are padded to a power of two, sequences to one of `widths`. The padding is masked (`input_mask` 0), and its
    outputs are cut off. The number of an example's windows or choices does not change.

    Args:
        forward: {name: tensor} -> tensors.
        inputs: the named inputs that it takes; the first axis of each is the rows.
        longest: the longest sequence that the model has positions for.
    """
    names = [each.name for each in inputs]

    def model_for_xla(*values):
        return forward(dict(zip(names, values, strict=True)))

    axes, structure = _token_axes(model_for_xla, inputs)
    model = tf.function(model_for_xla, inputs, autograph=False)

    def call(features):
        rows, width = tf.shape(features["input_ids"])[0], tf.shape(features["input_ids"])[-1]
        more_rows = _round_up(rows, [2**n for n in range(31)]) - rows
        more_tokens = _round_up(width, widths(longest)) - width
        padded = {}
        for name, values in features.items():
            inner = [0] * (values.shape.rank - 1)
            if name in SEQUENCES:
                inner[-1] = more_tokens
            padded[name] = tf.pad(values, [[0, more] for more in (more_rows, *inner)])
        outputs = tf.nest.flatten(model(*(padded[name] for name in names)))
        outputs = [_cut(each, rows, width, axis) for each, axis in zip(outputs, axes, strict=True)]
        return tf.nest.pack_sequence_as(structure, outputs)

    return call


def leave_out_of_xla(graph_def):
    """Keeps XLA away from everything but the model: it fails, or crashes, on the shapes of the tokenizer and the like.

    Args:
        graph_def: GraphDef of a SavedModel whose forward pass comes from `with_rounded_shapes`; changed in place.
    """
    functions = {each.signature.name: each for each in graph_def.library.function}
    model, found = set(), [name for name in functions if _MODEL in name]
    while found:
        name = found.pop()
        if name in functions and name not in model:
            model.add(name)
            for node in functions[name].node_def:
                for value in node.attr.values():
                    found += [value.func.name, *(each.name for each in value.list.func)]
    for nodes in (graph_def.node, *(each.node_def for name, each in functions.items() if name not in model)):
        for node in nodes:
            node.attr["_XlaCompile"].b = False


def _token_axes(model, inputs):
    """Returns which axis of each output is that of the tokens (None if it has none), and how the outputs are nested.

    The model is traced with sequences of two lengths: an axis that differs is that of the tokens.
    """

    def shapes(width):
        specs = [
            tf.TensorSpec([2, *(3 for _ in each.shape[1:-1]), width if each.name in SEQUENCES else 5], each.dtype)
            for each in inputs
        ]
        outputs = tf.function(model, specs, autograph=False).get_concrete_function().structured_outputs
        return [each.shape.as_list() for each in tf.nest.flatten(outputs)], outputs

    (narrow, structure), (wide, _) = shapes(6), shapes(7)
    axes = []
    for one, other in zip(narrow, wide, strict=True):
        differing = [axis for axis, sizes in enumerate(zip(one, other, strict=True)) if sizes[0] != sizes[1]]
        axes.append(differing[0] if differing else None)
    return axes, structure


def _round_up(size, sizes):
    """Returns the smallest of the ascending sizes that is at least `size`, or `size` if there is none."""
    index = tf.searchsorted(tf.constant(sizes), size[tf.newaxis])[0]
    return tf.concat([sizes, size[tf.newaxis]], 0)[index]


def _cut(values, rows, width, token_axis):
    values = values[:rows]
    if token_axis is None:
        return values
    return values[(slice(None),) * token_axis + (slice(0, width),)]
