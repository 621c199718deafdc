"""Maps the weight names and array layouts of a file to ours and back, without changing any number."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping


@dataclasses.dataclass(frozen=True)
class Transform:
    """A transformation between array layouts.

    Attributes:
        to_ours: their array -> ours.
        to_theirs: (our array, number of attention heads) -> theirs.
        shape: their shape -> ours.
        part, parts: the index of our weight in theirs, which holds this many of ours one after another.
    """

    to_ours: Callable
    to_theirs: Callable
    shape: Callable
    part: int = 0
    parts: int = 1


KEEP = Transform(lambda array: array, lambda array, heads: array, lambda shape: shape)
# Hugging Face keeps torch's [out, in] kernels; ours and TF1's are [in, out].
TRANSPOSE = Transform(lambda array: array.T, lambda array, heads: array.T, lambda shape: shape[::-1])


def transposed_part(part: int, parts: int) -> Transform:
    """Returns the transformation of one of the `parts` kernels, or biases, that are one array [parts * out, in]."""

    def is_whole(shape):  # otherwise their array, and its shape, stay as they are, so that it is no weight of ours
        return bool(shape) and not shape[0] % parts

    def cut(array):
        size = len(array) // parts if is_whole(array.shape) else 0
        return array[part * size : (part + 1) * size].T if size else array

    def shape(theirs):
        return (*theirs[:0:-1], theirs[0] // parts) if is_whole(theirs) else theirs

    return Transform(cut, TRANSPOSE.to_theirs, shape, part, parts)


# KerasHub's kernels of attention know the heads: query, key and value [H, A, H / A], their biases [A, H / A] ...
HEADS_LAST = Transform(
    lambda array: array.reshape(*array.shape[:-2], -1),
    lambda array, heads: array.reshape(*array.shape[:-1], heads, -1),
    lambda shape: (*shape[:-2], math.prod(shape[-2:])),
)
# ... and that of attention's output [A, H / A, H].
HEADS_FIRST = Transform(
    lambda array: array.reshape(-1, array.shape[-1]),
    lambda array, heads: array.reshape(heads, -1, array.shape[-1]),
    lambda shape: (math.prod(shape[:-1]), shape[-1]),
)


def _behind_two_rows(array):
    import numpy as np  # here, as the names alone are read without it

    return np.concatenate([np.zeros((2, *array.shape[1:]), array.dtype), array])


# KerasHub's RoBERTa counts positions from 0; in ours two rows stand before them, which no token reads.
BEHIND_PADDING = Transform(_behind_two_rows, lambda array, heads: array[2:], lambda shape: (shape[0] + 2, *shape[1:]))


# === Name maps ===
# The name of each weight in a format: one table, used in both directions.
#
# Our variable paths are the names of google-research/bert's TF1 checkpoints (modeling.py, run_*.py), whatever the
# family, except that the classifier's head, which has no scope there, is under `classifier/` here. Names that are
# dropped on purpose are in the table too: unknown names are reported, never ignored.


WORDS = "bert/embeddings/word_embeddings"  # the one weight that every encoder has, and has once

_HOLES = {
    r"\{n\}": r"(?P<n>0|[1-9][0-9]*)",
    r"\{own\}": r"(?P<own>(?:(?!/adam_[mv]$).)+)",  # a custom task's weight, not its optimizer state
    r"\{any\}": ".*",
}


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
    ours = "bert/encoder/layer_{n}"
    return [
        *dense(f"{ours}/attention/self/query", f"{theirs}.attention.self.query"),
        *dense(f"{ours}/attention/self/key", f"{theirs}.attention.self.key"),
        *dense(f"{ours}/attention/self/value", f"{theirs}.attention.self.value"),
        *dense(f"{ours}/attention/output/dense", f"{theirs}.attention.output.dense"),
        *dense(f"{ours}/intermediate/dense", f"{theirs}.intermediate.dense"),
        *dense(f"{ours}/output/dense", f"{theirs}.output.dense"),
        *(
            row
            for part in norms
            for row in norm(f"{ours}/{part}/LayerNorm", f"{theirs}.{part.replace('/', '.')}.LayerNorm")
        ),
    ]


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
    """Returns the twin of a masked-LM head's output layer: the word embeddings, or a weight of its own."""
    return Twin(theirs, WORDS, "cls/predictions/output_bias", untied="cls/predictions/output_weights")


def decoder(theirs: str) -> tuple[Twin, Twin]:
    """Returns the twins of a masked-LM output layer with a bias, which is the head's `output_bias`."""
    bias = "cls/predictions/output_bias"
    return output_layer(f"{theirs}.weight"), Twin(f"{theirs}.bias", bias, bias)


@dataclasses.dataclass(frozen=True)
class Sorted:
    """The names of one file: `known` our path -> its name, `left_out`, `twins` its name -> Twin, `unknown`."""

    known: dict[str, str]
    left_out: list[str]
    twins: dict[str, Twin]
    unknown: list[str]


@dataclasses.dataclass(frozen=True)
class NameMap:
    """All weight names of one format.

    Attributes:
        rows: the weights.
        left_out: names that are dropped on purpose; `{any}` stands for any text.
        twins: second names.
        prefix: prefix of the encoder's names; some files lack it, or have another one, which is stripped: see `sort`.
        without_prefix: beginnings of such names.
        old_spellings: (old, new): name components in old files or some classes.
        of_class: suffix of a class -> more rows, if classes have the same names for different weights; see `for_class`.
        separator: separator of name components; "" if no file has the encoder inside another model.
    """

    rows: tuple[WeightName, ...]
    left_out: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    prefix: str = ""
    without_prefix: tuple[str, ...] = ()
    old_spellings: tuple[tuple[str, str], ...] = ()
    of_class: Mapping[str, tuple[WeightName, ...]] = dataclasses.field(default_factory=dict)
    separator: str = "."

    def renamed(self, old: str, new: str) -> "NameMap":
        """Returns the map of a family that only differs in the encoder's prefix, `new` instead of `old`."""

        def change(name):
            return new + name.removeprefix(old) if name.startswith(old) else name

        rows = tuple(dataclasses.replace(row, theirs=change(row.theirs)) for row in self.rows)
        left_out = tuple(map(change, self.left_out))
        return dataclasses.replace(self, rows=rows, left_out=left_out, prefix=change(self.prefix))

    def for_class(self, names: Iterable[str]) -> "NameMap":
        """Returns the map for files of the first class of `names` with rows of its own, otherwise of any class."""
        if not self.of_class:
            return self
        ends = (end for name in names for end in self.of_class if name.endswith(end))
        rows = self.of_class[next(ends, next(iter(self.of_class)))]
        return dataclasses.replace(self, rows=self.rows + rows, of_class={})

    def leaving_out(self, path: str) -> "NameMap":
        """Returns the map of models that do not use the weight at our `path`, although files may have it."""
        rows = tuple(row for row in self.rows if row.ours != path)
        names = tuple(row.theirs for row in self.rows if row.ours == path)
        return dataclasses.replace(self, rows=rows, left_out=self.left_out + names)

    def moving(self, old: str, new: str) -> "NameMap":
        """Returns the map of models whose weight at our path `old` is at our path `new`."""
        rows = tuple(dataclasses.replace(row, ours=new) if row.ours == old else row for row in self.rows)
        return dataclasses.replace(self, rows=rows)

    def without_ties(self) -> "NameMap":
        """Returns the map of models with an untied output layer."""
        rows = tuple(WeightName(twin.untied, twin.theirs) for twin in self.twins if twin.untied)
        twins = tuple(twin for twin in self.twins if not twin.untied)
        return dataclasses.replace(self, rows=self.rows + rows, twins=twins)

    def to_ours(self, name: str) -> str | None:
        """Returns our path for a full name, the first if it holds several weights, or None if it is unknown."""
        return next(iter(self._paths_of(name)), None)

    def _paths_of(self, name):
        return [_filled(row.ours, m.groupdict()) for regex, row in self._by_name if (m := regex.fullmatch(name))]

    def from_ours(self, path: str, among: Container[str] | None = None) -> str:
        """Returns the format's name for our `path`.

        Args:
            path: one of our paths.
            among: the paths of the whole model, which decide between several names for one path. If None, the first.

        Raises:
            ValueError: the path is unknown.
        """
        row, parts = self._row_of(path, among)
        if row is None:
            raise ValueError(
                f"A variable must have an entry in the name tables, checkpoints/name_maps.py, or be in the `head` of a "
                f"custom task. Received: {path!r}."
            )
        return _filled(row.theirs, parts)

    def knows(self, path: str) -> bool:
        """Returns whether our `path` has a name in this format."""
        return self._row_of(path, None)[0] is not None

    def transform(self, path: str) -> Transform:
        """Returns the transformation from the file's array to ours at `path`; KEEP for an unknown path."""
        row, _ = self._row_of(path, None)
        return row.transform if row else KEEP

    def transposed(self, path: str) -> bool:
        """Returns whether the array at our `path` is transposed in the file."""
        return self.transform(path) is TRANSPOSE

    def _row_of(self, path, among):
        rows = self._by_path if among is None else [(r, row) for r, row in self._by_path if _holds(row, among)]
        return _find(rows, path)

    def sort(self, names: Iterable[str], foreign: Iterable[str] = ()) -> Sorted:
        """Classifies a file's names as known, dropped, second or unknown names.

        A model that contains the encoder as a submodule adds a prefix such as "backbone.", "module.bert." or TF1's
        "module/" to the encoder's names. It is derived from the name of the word embeddings, if there is one encoder.

        Args:
            names: names of all weights in the file.
            foreign: prefixes of other families' encoders, which are not such prefixes.

        Raises:
            ValueError: two names of the file map to the same variable.
        """
        names = sorted(names)
        outer, own = self._outer(names, tuple(foreign))
        full = {name: self._full(own + name.removeprefix(outer) if name.startswith(outer) else name) for name in names}
        result = Sorted({}, [], {}, [])
        twins = {twin.theirs: twin for twin in self.twins}
        for name, whole in full.items():
            paths = self._paths_of(whole)
            if path := next((path for path in paths if path in result.known), None):
                both = f"{result.known[path]!r} and {name!r}"
                raise ValueError(f"Several names of the checkpoint map to {path!r}: {both}.")
            if paths:
                result.known.update(dict.fromkeys(paths, name))
            elif any(regex.fullmatch(whole) for regex in self._left_out):
                result.left_out.append(name)
            elif whole in twins:
                result.twins[name] = twins[whole]
            else:
                result.unknown.append(name)
        for name, twin in list(result.twins.items()):
            if twin.of not in result.known:
                result.known[twin.of] = name
                del result.twins[name]
        return result

    def _full(self, name):
        """Returns a name in its current spelling, with the prefix that some files omit."""
        for old, new in self.old_spellings:
            name = name.replace(old, new)
        return f"{self.prefix}{name}" if name.startswith(self.without_prefix) else name

    def _outer(self, names, foreign):
        """Returns the prefix to strip from the names, and its replacement."""
        if not self.separator:
            return "", ""
        bare, dot = self.from_ours(WORDS).removeprefix(self.prefix), self.separator
        fronts = [name.removesuffix(bare) for name in names if f"{dot}{name}".endswith(f"{dot}{bare}")]
        if len(fronts) != 1 or fronts[0] in ("", self.prefix):
            return "", ""
        if f"{dot}{fronts[0]}".endswith(f"{dot}{self.prefix}"):
            return fronts[0].removesuffix(self.prefix), ""
        return ("", "") if fronts[0].endswith(foreign) else (fronts[0], self.prefix)

    @functools.cached_property
    def _by_name(self):
        return [(_regex(row.theirs), row) for row in self.rows]

    @functools.cached_property
    def _by_path(self):
        return [(_regex(row.ours), row) for row in self.rows]

    @functools.cached_property
    def _left_out(self):
        return [_regex(pattern) for pattern in self.left_out]


def _regex(pattern):
    pattern = re.escape(pattern)
    for hole, regex in _HOLES.items():
        pattern = pattern.replace(hole, regex)
    return re.compile(pattern)


def _holds(row, among):
    return not row.requires or row.requires in among


def _find(table, name):
    for regex, row in table:
        if match := regex.fullmatch(name):
            return row, match.groupdict()
    return None, {}


def _filled(pattern, parts):
    for hole, text in parts.items():
        pattern = pattern.replace(f"{{{hole}}}", text)
    return pattern
