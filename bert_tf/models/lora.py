"""Low-rank adapters (LoRA; Hu et al. 2021, arXiv 2106.09685): their targets, rank and scale as plain data."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

# Possible targets -> their path in a block.
TARGETS = {
    "query": "attention/self/query",
    "key": "attention/self/key",
    "value": "attention/self/value",
    "output": "attention/output/dense",
}
_LARGEST = 1_000_000  # of rank and alpha: no kernel is this wide
NAMES = ("lora_A", "lora_B")  # names of an adapter's two variables, here and in PEFT's files


@dataclasses.dataclass(frozen=True)
class Lora:
    """LoRA settings: an adapted kernel W acts as W + (alpha / rank) A B (B A in the paper, for column vectors).

    Attributes:
        rank: A is [in, rank], B is [rank, out].
        alpha: as above.
        targets: the adapted maps of a block, keys of TARGETS. The paper uses query and value (section 4.2).

    Raises:
        ValueError: a value is out of range.
    """

    rank: int
    alpha: float
    targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self):
        good = [isinstance(n, kind) and not isinstance(n, bool) and 0 < n <= _LARGEST
                for n, kind in ((self.rank, int), (self.alpha, (int, float)))]  # fmt: skip
        if not all(good):
            raise ValueError(
                f"`lora_rank` must be a whole number above 0, and `lora_alpha` a number above 0, at most {_LARGEST:,}; "
                f"got {self.rank!r:.80} and {self.alpha!r:.80}."
            )
        known = isinstance(self.targets, (list, tuple)) and all(name in TARGETS for name in self.targets)
        if not known or not self.targets or len(set(self.targets)) < len(self.targets):
            raise ValueError(
                f"`lora_targets` must be distinct names from {list(TARGETS)}; got {self.targets!r}."
            )
        object.__setattr__(self, "targets", tuple(self.targets))
        object.__setattr__(self, "alpha", float(self.alpha))

    @classmethod
    def of(cls, value: "Lora | Mapping[str, Any] | None") -> "Lora | None":
        """Returns a `Lora` unchanged, or builds it from the output of `to_dict`; returns None for None.

        Raises:
            ValueError: the dict is invalid.
        """
        if value is None or isinstance(value, cls):
            return value
        fields = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(value, Mapping) or not {"rank", "alpha"} <= set(value) <= set(fields):
            raise ValueError(f"lora must contain {fields}; got {value!r}.")
        return cls(**value)

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as JSON values."""
        return dataclasses.asdict(self) | {"targets": list(self.targets)}

    @property
    def scale(self) -> float:
        """The factor of A B, alpha / rank."""
        return self.alpha / self.rank


def is_adapter(path: str) -> bool:
    """Returns whether the variable at `path` belongs to an adapter."""
    return path.rpartition("/")[2] in NAMES


def freeze_all_but_adapters(variables: Iterable[Any]):
    """Makes all variables except adapters untrainable; adapters keep their setting."""
    for variable in variables:
        variable.trainable = variable.trainable and is_adapter(variable.path)
