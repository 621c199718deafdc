"""Training phases: successive steps on records of different lengths, such as 900 at 128 tokens and 100 at 512."""

import dataclasses
import itertools
import os
import re
from collections.abc import Callable, Iterator

from absl import logging

from bert_tf.pretraining import record_files
from bert_tf.pretraining.batches import Records
from bert_tf.utils.counts import number_of, word_for

_PHASE = re.compile(r"(\d+)x(\d+(?:\.\d+)?%|\d+)(?:@(\d+))?")


@dataclasses.dataclass(frozen=True)
class Phase:
    """A training phase: steps on records of one sequence length.

    Attributes:
        records: the records to read.
        batch_size: rows per step, over all replicas and micro-batches.
        num_steps: number of steps, at least 1.
    """

    records: Records
    batch_size: int
    num_steps: int

    def __post_init__(self):
        for name in ("batch_size", "num_steps"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"The {name} of every phase must be at least 1; got {getattr(self, name)}; remove phases "
                    "without steps."
                )


@dataclasses.dataclass(frozen=True)
class Phases:
    """The training phases of a run, in order.

    Model, optimizer and step count carry over between phases, and one learning-rate schedule spans all of them.
    """

    phases: tuple[Phase, ...]

    def __post_init__(self):
        check_same_kind("packing", [records.packed for records in self.all_records], self.all_records)
        check_sentences(self.all_records)

    @property
    def num_train_steps(self) -> int:
        """Total number of steps of all phases."""
        return sum(phase.num_steps for phase in self.phases)

    @property
    def num_train_examples(self) -> int:
        """Total number of rows of all phases."""
        return sum(phase.batch_size * phase.num_steps for phase in self.phases)

    @property
    def paths(self) -> list[str]:
        """All files, in the order of the phases."""
        return [path for phase in self.phases for path in phase.records.paths]

    @property
    def records(self) -> Records:
        """The records of the last phase, which the result is intended for."""
        return self.phases[-1].records

    @property
    def all_records(self) -> list[Records]:
        """The records of each phase."""
        return [phase.records for phase in self.phases]

    @property
    def lengths(self) -> list[int]:
        """Tokens per row in each phase."""
        return [records.max_seq_length for records in self.all_records]

    def left(self, start: int) -> list[tuple[Phase, int]]:
        """Returns the phases left after `start` steps of the run, in order: (phase, its completed steps).

        128x900,512x100   start 0 -> (128, 0), (512, 0)   start 950 -> (512, 50)   start 1000 -> nothing
        """
        ends = itertools.accumulate(phase.num_steps for phase in self.phases)
        offsets = [max(0, start - end + phase.num_steps) for phase, end in zip(self.phases, ends, strict=True)]
        return [(phase, offset) for phase, offset in zip(self.phases, offsets, strict=True) if offset < phase.num_steps]

    def for_model(self, vocab_size: int, type_vocab_size: int) -> "Phases":
        """Returns the same phases, with records whose ids are checked against a model's sizes."""
        return Phases(
            tuple(
                dataclasses.replace(phase, records=phase.records.for_model(vocab_size, type_vocab_size))
                for phase in self.phases
            )
        )

    def _passed(self, phase):
        """Returns the number of rows of its files that earlier phases read: the phase starts after them."""
        earlier = itertools.takewhile(lambda other: other is not phase, self.phases)
        same = [other for other in earlier if other.records.paths == phase.records.paths]
        return sum(other.batch_size * other.num_steps for other in same)

    def batches(self, seed: int, start: int = 0, masks: Callable | None = None) -> Iterator[dict]:
        """Yields the batches of the steps after `start`, as `Records.batches` creates them.

        Args:
            seed: seed of the shuffling.
            start: number of completed steps.
            masks: a function from (`Records`, seed) to the `masks` of `Records.batches`. If None, no masks are added.
        """
        for phase, offset in self.left(start):
            draw = masks(phase.records, seed) if masks else None
            batches = phase.records.batches(phase.batch_size, seed, offset, draw, self._passed(phase))
            yield from itertools.islice(batches, phase.num_steps - offset)


def find_training_files(input_file: list[str], eval_file: list[str] | None) -> list[str]:
    """Returns the training record files: those of `input_file` without any of `eval_file`."""
    if not eval_file:
        return input_file
    held_out = record_files.find_record_files(eval_file)
    paths = record_files.find_record_files(input_file, without=held_out)
    if both := set(map(os.path.realpath, paths)) & set(map(os.path.realpath, held_out)):
        logging.warning(
            "%s of `eval_file`, such as %s, %s also in `input_file`: the evaluation includes training data.",
            *(number_of(len(both), "file"), min(both), word_for(len(both), "is", "are")),
        )
    return paths


def check_sentences(several: list[Records]):
    """Raises ValueError if some records have sentence labels and others do not."""
    check_same_kind("sentence_objective", [records.has_sentences for records in several], several)


def check_same_kind(option: str, kinds: list, several: list[Records]):
    """Raises ValueError if records were created with different values of an option."""
    if len(set(kinds)) > 1:
        files = ", ".join(records.paths[0] for records in several)
        whose = "training, in all phases," if option == "packing" else "one run, including `eval_file`,"
        raise ValueError(
            f"The records of {whose} must be made with the same `{option}`. It differs in {files}; make them "
            "alike."
        )


def parse_phases(phases: str, patterns: list[str], batch_size: int, num_train_steps: int | None = None) -> Phases:
    """Parses phases: max_seq_length x steps, optionally with @ and a batch size, separated by commas.

        128x900,512x100          128x90%,512x10%          128x900@256,512x100@64

    Args:
        phases: the text to parse.
        patterns: patterns of all record files; a phase reads those with its sequence length.
        batch_size: batch size of phases that specify none.
            num_train_steps: total number of steps, to which percentages refer, or None if the text has none. The last
                phase takes the remainder due to rounding.

    Raises:
        ValueError: the text is not valid or does not add up to `num_train_steps`, or a phase has no records.
    """
    matches = [_PHASE.fullmatch(part.strip()) for part in phases.split(",")]
    if not all(matches):
        raise ValueError(
            "`phases` must list LENGTHxSTEPS, separated by commas, such as 128x900,512x100 or 128x90%,512x10%@64; "
            f"got {phases!r}."
        )
    steps = _steps([match[2] for match in matches], phases, num_train_steps)
    return Phases(
        tuple(
            Phase(Records.select(patterns, int(match[1])), int(match[3] or batch_size), count)
            for match, count in zip(matches, steps, strict=True)
        )
    )


def _steps(texts, phases, num_train_steps):
    """Returns the steps of each phase; percentages refer to `num_train_steps`, and add up to it."""
    if not any(text.endswith("%") for text in texts):
        steps = [int(text) for text in texts]
        if num_train_steps not in (None, sum(steps)):
            raise ValueError(
                f"The steps of `phases` must add up to `num_train_steps`; got {phases}, which add up to "
                f"{sum(steps)}, and {num_train_steps}; omit `num_train_steps` or make them equal."
            )
        return steps
    shares = [float(text[:-1]) for text in texts if text.endswith("%")]
    if len(shares) < len(texts) or abs(sum(shares) - 100) > 1e-6 or num_train_steps is None:
        raise ValueError(
            "Percentages in `phases` require `num_train_steps`, must be in every phase and must add up to 100; "
            f"got {phases}, and `num_train_steps={num_train_steps}`."
        )
    ends = [round(num_train_steps * sum(shares[: i + 1]) / 100) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
