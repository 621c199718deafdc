"""Recipes of quick pretraining: the phases of a model of one size."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class PlannedPhase:
    """A phase of the training: sequence length, fraction of the steps, batch size.

    Attributes:
        row_length: tokens per row.
        share: fraction of all steps, above 0 and at most 1.
        batch_size: rows per step.
    """

    row_length: int
    share: float
    batch_size: int


@dataclasses.dataclass(frozen=True)
class SizeRecipe:
    """A recipe for a small encoder: phases, flags and size.

    Attributes:
        phases: phases of the training, in order; their shares add up to 1.
        warmup_steps: steps of learning-rate warmup: with a few dozen, the loss then stagnates for hundreds of steps. In
            short runs, it is at most a fifth of the steps.
        records: flags of `pretrain data`, for all row lengths.
        pretraining: flags of `pretrain run`.
        config: fields of `EncoderConfig` except vocab_size. If None, the network consists of the teacher's layers.
        layers: number of these layers, evenly spaced.
    """

    phases: Sequence[PlannedPhase]
    warmup_steps: int
    records: Mapping[str, Any]
    pretraining: Mapping[str, Any]
    config: Mapping[str, Any] | None = None
    layers: int = 0

    def __post_init__(self):
        assert math.isclose(sum(phase.share for phase in self.phases), 1), "shares must add up to 1"
        assert (self.config is None) == (self.layers > 0), "there is one network to begin with"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "SizeRecipe":
        """Creates a recipe from {attribute: value}, with each phase as a tuple."""
        return cls(**{**values, "phases": tuple(PlannedPhase(*phase) for phase in values["phases"])})

    @property
    def row_lengths(self) -> list[int]:
        """The distinct row lengths of all phases, in ascending order."""
        return sorted({phase.row_length for phase in self.phases})

    def to_dict(self) -> dict[str, Any]:
        """Returns all attributes as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def spread_layers(number: int, depth: int) -> list[int]:
    """Selects `number` evenly spaced layers of `depth`, including the first and the last: 4 of 6 are 0, 2, 4, 5."""
    return [-(-place * (depth - 1) // max(1, number - 1)) for place in range(number)]
