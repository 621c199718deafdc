"""What each weight is called in each dialect: one table of rows, read in both directions.

Our variable paths are the names of google-research/bert's TF1 checkpoints (modeling.py, run_*.py), except that the
classifier's head, which has no scope there, lies under `classifier/` here. A name that a file may hold and that we drop
on purpose is a row too: whatever no row knows is reported, never passed over.
"""

import dataclasses
import re
from collections.abc import Iterable

TF1, HUGGING_FACE = "tf1", "huggingface"
KEEP, TRANSPOSE = "keep", "transpose"  # Hugging Face keeps torch's [out, in] kernels; ours and TF1's are [in, out]


@dataclasses.dataclass(frozen=True)
class Row:
    """One weight: `{n}` stands for the layer's number; `transform` leads from Hugging Face's array to ours and back."""

    ours: str
    tf1: str
    huggingface: str
    transform: str = KEEP


def _same(ours, huggingface, transform=KEEP):
    return Row(ours, ours, huggingface, transform)


def _dense(ours, huggingface):
    return [_same(f"{ours}/kernel", f"{huggingface}.weight", TRANSPOSE), _same(f"{ours}/bias", f"{huggingface}.bias")]


def _norm(ours, huggingface):
    return [_same(f"{ours}/gamma", f"{huggingface}.weight"), _same(f"{ours}/beta", f"{huggingface}.bias")]


_LAYER, _HF_LAYER = "bert/encoder/layer_{n}", "bert.encoder.layer.{n}"
ROWS = [
    _same("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
    _same("bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight"),
    _same("bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight"),
    *_norm("bert/embeddings/LayerNorm", "bert.embeddings.LayerNorm"),
    *_dense(f"{_LAYER}/attention/self/query", f"{_HF_LAYER}.attention.self.query"),
    *_dense(f"{_LAYER}/attention/self/key", f"{_HF_LAYER}.attention.self.key"),
    *_dense(f"{_LAYER}/attention/self/value", f"{_HF_LAYER}.attention.self.value"),
    *_dense(f"{_LAYER}/attention/output/dense", f"{_HF_LAYER}.attention.output.dense"),
    *_norm(f"{_LAYER}/attention/output/LayerNorm", f"{_HF_LAYER}.attention.output.LayerNorm"),
    *_dense(f"{_LAYER}/intermediate/dense", f"{_HF_LAYER}.intermediate.dense"),
    *_dense(f"{_LAYER}/output/dense", f"{_HF_LAYER}.output.dense"),
    *_norm(f"{_LAYER}/output/LayerNorm", f"{_HF_LAYER}.output.LayerNorm"),
    *_dense("bert/pooler/dense", "bert.pooler.dense"),
    *_dense("cls/predictions/transform/dense", "cls.predictions.transform.dense"),
    *_norm("cls/predictions/transform/LayerNorm", "cls.predictions.transform.LayerNorm"),
    _same("cls/predictions/output_bias", "cls.predictions.bias"),
    # These heads are [classes, H] everywhere: Google wrote them for matmul(transpose_b=True), as torch does.
    _same("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
    _same("cls/seq_relationship/output_bias", "cls.seq_relationship.bias"),
    _same("cls/squad/output_weights", "qa_outputs.weight"),
    _same("cls/squad/output_bias", "qa_outputs.bias"),
    Row("classifier/output_weights", "output_weights", "classifier.weight"),
    Row("classifier/output_bias", "output_bias", "classifier.bias"),
]

# Mapped to nothing, on purpose. `{any}` stands for any text.
LEFT_OUT = {
    # The optimizer's moments and the step, as Google writes them; training/ is where our own runs keep the rest of
    # their state (random seeds, position in the data).
    TF1: ["{any}/adam_m", "{any}/adam_v", "global_step", "training/{any}"],
    HUGGING_FACE: ["bert.embeddings.position_ids"],  # the buffer 0, 1, 2, ... that old versions saved
}


@dataclasses.dataclass(frozen=True)
class Twin:
    """A second name of a tied weight. It stands in for `of` where that is not in the file; else it must be equal.

    Equality matters, and is checked, only where the variable `needed_by` is loaded.
    """

    huggingface: str
    of: str
    needed_by: str


TWINS = [
    Twin("cls.predictions.decoder.weight", "bert/embeddings/word_embeddings", "cls/predictions/output_bias"),
    Twin("cls.predictions.decoder.bias", "cls/predictions/output_bias", "cls/predictions/output_bias"),
]

_OLD_SPELLINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_HF_PREFIX = "bert."  # sentence-transformers and BertModel save without it
_HOLES = {r"\{n\}": r"(?P<n>0|[1-9][0-9]*)", r"\{any\}": ".*"}


def _regex(pattern):
    pattern = re.escape(pattern)
    for hole, regex in _HOLES.items():
        pattern = pattern.replace(hole, regex)
    return re.compile(pattern)


_BY_NAME = {d: [(_regex(getattr(row, d)), row) for row in ROWS] for d in (TF1, HUGGING_FACE)}
_BY_PATH = [(_regex(row.ours), row) for row in ROWS]
_LEFT_OUT = {d: [_regex(p) for p in patterns] for d, patterns in LEFT_OUT.items()}
_TWINS = {twin.huggingface: twin for twin in TWINS}


def _find(table, name):
    for regex, row in table:
        if match := regex.fullmatch(name):
            return row, match.groupdict().get("n", "")
    return None, ""


def to_ours(name: str, dialect: str) -> str | None:
    """Returns our path for the full name of `dialect`, or None if no row knows it."""
    row, n = _find(_BY_NAME[dialect], name)
    return row and row.ours.replace("{n}", n)


def from_ours(path: str, dialect: str) -> str:
    """Returns the name that our `path` bears in `dialect`.

    Raises:
        ValueError: no row knows the path.
    """
    row, n = _find(_BY_PATH, path)
    if row is None:
        raise ValueError(
            f"A variable must have a row in the table of names, bert_tf/checkpoints/name_maps.py. Received: {path!r}."
        )
    return getattr(row, dialect).replace("{n}", n)


def transposed(path: str, dialect: str) -> bool:
    """Says whether the array under our `path` lies transposed in `dialect`."""
    row, _ = _find(_BY_PATH, path)
    return dialect == HUGGING_FACE and row is not None and row.transform == TRANSPOSE


@dataclasses.dataclass(frozen=True)
class Sorted:
    """The names of one file: `known` our path -> its name, `left_out`, `twins` its name -> Twin, `unknown`."""

    known: dict[str, str]
    left_out: list[str]
    twins: dict[str, Twin]
    unknown: list[str]


def sort_names(names: Iterable[str], dialect: str) -> Sorted:
    """Sorts a file's names by what the table says about them.

    Raises:
        ValueError: two names of the file mean the same variable.
    """
    result = Sorted({}, [], {}, [])
    for name in sorted(names):
        full = _full_name(name) if dialect == HUGGING_FACE else name
        path = to_ours(full, dialect)
        if path in result.known:
            both = f"{result.known[path]!r} and {name!r}"
            raise ValueError(f"Only one name of a checkpoint may mean {path!r}. Received: {both}.")
        if path is not None:
            result.known[path] = name
        elif any(regex.fullmatch(full) for regex in _LEFT_OUT[dialect]):
            result.left_out.append(name)
        elif full in _TWINS and dialect == HUGGING_FACE:
            result.twins[name] = _TWINS[full]
        else:
            result.unknown.append(name)
    for name, twin in list(result.twins.items()):
        if twin.of not in result.known:
            result.known[twin.of] = name
            del result.twins[name]
    return result


def _full_name(name):
    """Returns a Hugging Face name in its present spelling, with the prefix that some files leave out."""
    for old, new in _OLD_SPELLINGS.items():
        name = name.replace(old, new)
    return f"{_HF_PREFIX}{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name
