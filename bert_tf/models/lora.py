"""Low-rank adapters (LoRA; Hu et al. 2021, arXiv 2106.09685): where they sit and how strong they are, as plain data."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

# What may have an adapter -> where it is in a block.
TARGETS = {
    "query": "attention/self/query",
    "key": "attention/self/key",
    "value": "attention/self/value",
    "output": "attention/output/dense",
}
_LARGEST = 1_000_000  # of rank and alpha: no kernel is so wide
NAMES = ("lora_A", "lora_B")  # what an adapter's two variables are called, here and in PEFT's files


@dataclasses.dataclass(frozen=True)
class Lora:
    """Adapters: a kernel W that has one acts as W + (alpha / rank) A B; the paper writes B A, for column vectors.

    Attributes:
        rank: A is [in, rank], B is [rank, out].
        alpha: as above.
        targets: which of a block's maps have one, keys of TARGETS. The paper takes query and value (section 4.2).

    Raises:
        ValueError: one is out of range.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self):
        good = [isinstance(n, kind) and not isinstance(n, bool) and 0 < n <= _LARGEST
                for n, kind in ((self.rank, int), (self.alpha, (int, float)))]  # fmt: skip
        if not all(good):
            raise ValueError(
                f"`lora_rank` must be a whole number above 0, and `lora_alpha` a number above 0, at most {_LARGEST:,}. "
                f"Received: {self.rank!r:.80} and {self.alpha!r:.80}."
            )
        known = isinstance(self.targets, (list, tuple)) and all(name in TARGETS for name in self.targets)
        if not known or not self.targets or len(set(self.targets)) < len(self.targets):
            raise ValueError(
                f"`lora_targets` must be some of {list(TARGETS)}, each of them once. Received: {self.targets!r}."
            )
        object.__setattr__(self, "targets", tuple(self.targets))
        object.__setattr__(self, "alpha", float(self.alpha))

    @classmethod
    def of(cls, value: "Lora | Mapping[str, Any] | None") -> "Lora | None":
        """Returns adapters as they are, or of the dict that `to_dict` made; None stays None.

        Raises:
            ValueError: it is no such dict.
        """
        if value is None or isinstance(value, cls):
            return value
        fields = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(value, Mapping) or not {"rank", "alpha"} <= set(value) <= set(fields):
            raise ValueError(f"lora must hold {fields}. Received: {value!r}.")
        return cls(**value)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values."""
        return dataclasses.asdict(self) | {"targets": list(self.targets)}

    @property
    def scale(self) -> float:
        """The factor of A B, alpha / rank."""
        return self.alpha / self.rank


def is_adapter(path: str) -> bool:
    """Says whether the variable at `path` is a part of an adapter."""
    return path.rpartition("/")[2] in NAMES


def freeze_all_but_adapters(variables: Iterable[Any]):
    """Makes what adapters stand next to untrainable; an adapter that was frozen stays so."""
    for variable in variables:
        variable.trainable = variable.trainable and is_adapter(variable.path)
