"""What a recipe of `flags.recipes` says, as the other modules here read it."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Phase:
    """A part of the training.

    Attributes:
        row_length: pieces of a row.
        share: of all steps, over 0, at most 1.
        batch_size: rows of a step.
    """

    row_length: int
    share: float
    batch_size: int


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a small encoder is made.

    Attributes:
        phases: of the training, in order; their shares add up to 1.
        warmup_steps: in which the rate rises: with a few dozen a network stands still for hundreds of steps afterwards.
            Of short runs it is a fifth at most.
        records: flags of create_pretraining_data, for rows of every length.
        pretraining: flags of run_pretraining.
        config: fields of `EncoderConfig` but for vocab_size; None: the network is made of the teacher's layers.
        layers: how many of these, evenly spread.
    """

    phases: Sequence[Phase]
    warmup_steps: int
    records: Mapping[str, Any]
    pretraining: Mapping[str, Any]
    config: Mapping[str, Any] | None = None
    layers: int = 0

    def __post_init__(self):
        assert math.isclose(sum(phase.share for phase in self.phases), 1), "shares must add up to 1"
        assert (self.config is None) == (self.layers > 0), "there is one network to begin with"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Recipe":
        """Returns the recipe of {attribute: value}, with each phase as a tuple."""
        return cls(**{**values, "phases": tuple(Phase(*phase) for phase in values["phases"])})

    @property
    def row_lengths(self) -> list[int]:
        """Those of all phases, each once, the shortest first."""
        return sorted({phase.row_length for phase in self.phases})

    def to_dict(self) -> dict[str, Any]:
        """Returns it all as JSON gives it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


def spread_layers(number: int, depth: int) -> list[int]:
    """Returns `number` layers of `depth`, evenly spread, the first and the last among them: 4 of 6 are 0, 2, 4, 5."""
    return [-(-place * (depth - 1) // max(1, number - 1)) for place in range(number)]
