"""Name maps: the name of each weight in a format, one table used in both directions.

Our variable paths are the names of google-research/bert's TF1 checkpoints (modeling.py, run_*.py), whatever the family,
except that the classifier's head, which has no scope in those checkpoints, is under `classifier/`. Names that are
dropped on purpose are in the table too: unknown names are reported, never ignored.
"""

import dataclasses
import functools
import re
from collections.abc import Container, Iterable, Mapping

from bert_tf.checkpoints.names.array_layouts import KEEP, TRANSPOSE, Transform
from bert_tf.checkpoints.names.rows import WORDS, JoinedName, Twin, WeightName

_HOLES = {
    r"\{n\}": r"(?P<n>0|[1-9][0-9]*)",
    r"\{own\}": r"(?P<own>(?:(?!/adam_[mv]$).)+)",  # a custom task's weight, not its optimizer state
    r"\{any\}": ".*",
}


@dataclasses.dataclass(frozen=True)
class Sorted:
    """The names of one file: `known` our path -> its name, `left_out`, `twins` its name -> Twin, `unknown`."""

    known: dict[str, str]
    left_out: list[str]
    twins: dict[str, Twin]
    unknown: list[str]


@dataclasses.dataclass(frozen=True)
class WeightMapping:
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
        joined: the weights that files hold in several arrays; see `JoinedWeights`.
        written_prefixes: what stands for `prefix` in written files: of a model without a head, and of one with a head.
            If None, `prefix`.
    """

    rows: tuple[WeightName, ...]
    left_out: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    prefix: str = ""
    without_prefix: tuple[str, ...] = ()
    old_spellings: tuple[tuple[str, str], ...] = ()
    of_class: Mapping[str, tuple[WeightName, ...]] = dataclasses.field(default_factory=dict)
    separator: str = "."
    joined: tuple[JoinedName, ...] = ()
    written_prefixes: tuple[str, str] | None = None

    def renamed(self, old: str, new: str) -> "WeightMapping":
        """Returns the map of a family that only differs in the encoder's prefix, `new` instead of `old`."""

        def change(name):
            return new + name.removeprefix(old) if name.startswith(old) else name

        rows = tuple(dataclasses.replace(row, theirs=change(row.theirs)) for row in self.rows)
        left_out = tuple(map(change, self.left_out))
        return dataclasses.replace(self, rows=rows, left_out=left_out, prefix=change(self.prefix))

    def for_class(self, names: Iterable[str]) -> "WeightMapping":
        """Returns the map for files of the first class of `names` with separate rows, otherwise of any class."""
        if not self.of_class:
            return self
        ends = (end for name in names for end in self.of_class if name.endswith(end))
        rows = self.of_class[next(ends, next(iter(self.of_class)))]
        return dataclasses.replace(self, rows=self.rows + rows, of_class={})

    def leaving_out(self, path: str) -> "WeightMapping":
        """Returns the map of models that do not use the weight at our `path`, although files may have it."""
        rows = tuple(row for row in self.rows if row.ours != path)
        names = tuple(row.theirs for row in self.rows if row.ours == path)
        return dataclasses.replace(self, rows=rows, left_out=self.left_out + names)

    def moving(self, old: str, new: str) -> "WeightMapping":
        """Returns the map of models whose weight at our path `old` is at our path `new`."""
        rows = tuple(dataclasses.replace(row, ours=new) if row.ours == old else row for row in self.rows)
        return dataclasses.replace(self, rows=rows)

    def without_ties(self) -> "WeightMapping":
        """Returns the map of models with an untied output layer."""
        rows = tuple(WeightName(twin.untied, twin.theirs) for twin in self.twins if twin.untied)
        twins = tuple(twin for twin in self.twins if not twin.untied)
        return dataclasses.replace(self, rows=self.rows + rows, twins=twins)

    def to_ours(self, name: str) -> str | None:
        """Returns our path for a full name, the first if it contains several weights, or None if it is unknown."""
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
                f"A variable must have an entry in the name tables, checkpoints/names, or be in the `head` of a "
                f"custom task; got {path!r}."
            )
        return _filled(row.theirs, parts)

    def written(self, name: str, has_head: bool) -> str:
        """Returns the name in a written file for a `name` of `from_ours`."""
        if self.written_prefixes is None or not name.startswith(self.prefix):
            return name
        return self.written_prefixes[has_head] + name.removeprefix(self.prefix)

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
