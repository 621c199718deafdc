"""The rows of a weight mapping: the two names of a weight, and of the weights of the usual layers and heads."""

import dataclasses

from bert_tf.checkpoints.names.array_layouts import KEEP, TRANSPOSE, Transform

WORDS = "bert/embeddings/word_embeddings"  # the one weight that every encoder has, and has once
LAYER = "bert/encoder/layer_{n}"  # prefix of the paths of a layer's weights
MASKED_LM_HEAD = "cls/predictions/transform/dense/kernel"  # a weight that every masked-LM head has


@dataclasses.dataclass(frozen=True)
class WeightName:
    """The names of one weight.

    Attributes:
        ours, theirs: our path and the format's name; `{n}` stands for the layer's index, `{own}` for the rest of the
            name of a custom task's weight.
        transform: transformation from their array to ours and back.
        requires: our path of a weight that a model must have for this row to apply; otherwise another row for our path
            applies. "" if the row always applies.
    """

    ours: str
    theirs: str
    transform: Transform = KEEP
    requires: str = ""


def dense(ours: str, theirs: str) -> list[WeightName]:
    """Returns the rows of a torch linear layer."""
    return [WeightName(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSE), WeightName(f"{ours}/bias", f"{theirs}.bias")]


def norm(ours: str, theirs: str) -> list[WeightName]:
    """Returns the rows of a torch LayerNorm."""
    return [WeightName(f"{ours}/gamma", f"{theirs}.weight"), WeightName(f"{ours}/beta", f"{theirs}.bias")]


def head(ours: str, theirs: str, requires: str = "") -> list[WeightName]:
    """Returns the rows of a head [classes, H], stored for matmul(transpose_b=True) as in Google's code."""
    ends = (("output_weights", "weight"), ("output_bias", "bias"))
    return [WeightName(f"{ours}/{our}", f"{theirs}.{their}", requires=requires) for our, their in ends]


def classifier_of_two_layers(theirs: str) -> list[WeightName]:
    """Returns the rows of a text classifier with an extra layer, and of a token classifier without one."""
    dense_, last = f"{theirs}.dense", f"{theirs}.out_proj"
    return [
        *dense("classifier/dense", dense_),
        *head("classifier", last, requires="classifier/dense/kernel"),
        *head("classifier", theirs),
    ]


def embedding_rows(theirs: str, segments: bool = True) -> list[WeightName]:
    """Returns the rows of the embeddings, which have the same names in all of Hugging Face's encoders.

    Args:
        theirs: the embeddings' own name.
        segments: whether there is a segment table.
    """
    ours = "bert/embeddings"
    tables = ("word", "position", *(("token_type",) if segments else ()))
    return [
        *(WeightName(f"{ours}/{table}_embeddings", f"{theirs}.{table}_embeddings.weight") for table in tables),
        *norm(f"{ours}/LayerNorm", f"{theirs}.LayerNorm"),
    ]


def masked_lm_rows(theirs_dense: str, theirs_norm: str, theirs_bias: str) -> list[WeightName]:
    """Returns the rows of a masked-LM head, except for its output layer; see `output_layer`."""
    return [
        *dense("cls/predictions/transform/dense", theirs_dense),
        *norm("cls/predictions/transform/LayerNorm", theirs_norm),
        WeightName("cls/predictions/output_bias", theirs_bias),
    ]


def block_rows(theirs: str, norms: tuple[str, ...] = ("attention/output", "output")) -> list[WeightName]:
    """Returns the rows of a block whose sublayers are named as in Hugging Face's BERT.

    Args:
        theirs: the block's own name.
        norms: the sublayers with a LayerNorm.
    """
    return [
        *dense(f"{LAYER}/attention/self/query", f"{theirs}.attention.self.query"),
        *dense(f"{LAYER}/attention/self/key", f"{theirs}.attention.self.key"),
        *dense(f"{LAYER}/attention/self/value", f"{theirs}.attention.self.value"),
        *dense(f"{LAYER}/attention/output/dense", f"{theirs}.attention.output.dense"),
        *dense(f"{LAYER}/intermediate/dense", f"{theirs}.intermediate.dense"),
        *dense(f"{LAYER}/output/dense", f"{theirs}.output.dense"),
        *(
            row
            for part in norms
            for row in norm(f"{LAYER}/{part}/LayerNorm", f"{theirs}.{part.replace('/', '.')}.LayerNorm")
        ),
    ]


@dataclasses.dataclass(frozen=True)
class JoinedName:
    """The names of a weight that files hold in several arrays, which follow each other along the first axis.

    Attributes:
        whole: end of the name that a row of the mapping has for all of them together.
        parts: ends of their names in files, in order.
        is_written: whether written files have the parts; if not, they have the whole, and only some others the parts.
    """

    whole: str
    parts: tuple[str, ...]
    is_written: bool = True


@dataclasses.dataclass(frozen=True)
class Twin:
    """A second name of a tied weight. It replaces `of` if that is not in the file; otherwise it must be equal.

    Equality is only checked if the variable `needed_by` is loaded. In a model in which this weight is not tied, it is a
    variable of its own, at our path `untied`.
    """

    theirs: str
    of: str
    needed_by: str
    untied: str | None = None


def output_layer(theirs: str) -> Twin:
    """Returns the twin of a masked-LM head's output layer: the word embeddings, or a separate weight."""
    return Twin(theirs, WORDS, MASKED_LM_HEAD, untied="cls/predictions/output_weights")


def decoder(theirs: str) -> tuple[Twin, Twin]:
    """Returns the twins of a masked-LM output layer with a bias, which is the head's `output_bias`."""
    bias = "cls/predictions/output_bias"
    return output_layer(f"{theirs}.weight"), Twin(f"{theirs}.bias", bias, bias)
