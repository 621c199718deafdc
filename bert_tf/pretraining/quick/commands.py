"""The programs that a run consists of, with their flags."""

import dataclasses
import math
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.pretraining.quick.plan import CHECKPOINTS, TRIAL_CHECKPOINTS, TRIAL_STEPS
from bert_tf.pretraining.quick.recipe import Recipe, spread_layers
from bert_tf.pretraining.records.beside import number_of_rows
from bert_tf.tokenization.vocabulary import VOCAB_FILE, vocabulary_in
from bert_tf.utils.child_programs import shown
from bert_tf.utils.settings import Settings, command_line

WORK = "work"  # in the output directory: all that the result does not consist of
_OF_TEXT = ("input_format", "text_column", "document_start", "language")


@dataclasses.dataclass(frozen=True)
class Command:
    """A program with its flags.

    Attributes:
        program, flags: see there.
        anew: a folder that must not be there when it starts.
    """

    program: str
    flags: Mapping[str, Any]
    anew: pathlib.Path | None = None

    def words(self) -> list[str]:
        """Returns what is executed."""
        return [shown(sys.executable), "-m", "bert_tf", self.program, *command_line(_as_texts(self.flags))]

    def __str__(self):
        """Returns it on one line, for a shell."""
        return shlex.join(self.words())


@dataclasses.dataclass(frozen=True)
class Commands:
    """The command of each step.

    Attributes:
        settings: the flags of pretrain_small, --precision settled.
        recipe: how the encoder is made.
        depth: layers of the teacher, if there is one.
    """

    settings: Settings
    recipe: Recipe
    depth: int = 0

    @property
    def folder(self) -> pathlib.Path:
        """Where the result lies."""
        return pathlib.Path(self.settings.output_dir)

    @property
    def work(self) -> pathlib.Path:
        """Where the rest lies."""
        return self.folder / WORK

    @property
    def config_file(self) -> pathlib.Path:
        """Of a network that begins from random weights."""
        return self.work / "bert_config.json"

    @property
    def calibration_folder(self) -> pathlib.Path:
        """Where the calibration trains."""
        return self.work / "calibration"

    @property
    def vocab_file(self) -> pathlib.Path:
        """That of the user or the teacher, or the one that is learned."""
        settings = self.settings
        if settings.teacher:
            return pathlib.Path(vocabulary_in(settings.teacher))
        return pathlib.Path(settings.vocab_file) if settings.vocab_file else self.work / VOCAB_FILE

    def before_training(self) -> dict[str, Command]:
        """Returns the steps by name, in order, that make what is trained on and what begins."""
        settings, steps = self.settings, {}
        if not (settings.teacher or settings.vocab_file):
            steps["vocabulary"] = self._vocabulary()
        for length in self.recipe.row_lengths:
            steps[f"records of {length}"] = self._records(settings.input_file, self._record_file(length), length)
        if settings.eval_file:
            length = self.recipe.phases[-1].row_length
            steps["held-out records"] = self._records(settings.eval_file, self._held_out_file, length)
        if settings.teacher:
            steps["first weights"] = self._first_weights()
        return steps

    def rows(self) -> dict[int, int]:
        """Returns how many rows of each length the records have, once they are made."""
        return {length: number_of_rows(self._record_file(length)) for length in self.recipe.row_lengths}

    def calibration(self) -> Command:
        """Returns the training of `TRIAL_STEPS` in each phase."""
        steps = [TRIAL_STEPS] * len(self.recipe.phases)
        return self._training(steps, self.calibration_folder, TRIAL_CHECKPOINTS, anew=self.calibration_folder)

    def training(self, steps: Sequence[int]) -> Command:
        """Returns the training of so many steps in each phase."""
        return self._training(steps, self.folder, CHECKPOINTS)

    def _vocabulary(self):
        flags = {"input_file": self.settings.input_file, "output_file": self.vocab_file}
        return Command("train_vocabulary", {**flags, "vocab_size": self.settings.vocab_size, **self._of_text()})

    def _records(self, texts, path, length):
        flags = {"input_file": texts, "output_file": path, "vocab_file": self.vocab_file, "max_seq_length": length}
        seed = {"random_seed": self.settings.seed}
        return Command("create_pretraining_data", {**flags, **self.recipe.records, **seed, **self._of_text()})

    def _first_weights(self):
        folder, layers = self._first_folder, spread_layers(self.recipe.layers, self.depth)
        flags = {"model": self.settings.teacher, "layers": layers, "output_dir": folder}
        return Command("surgery", {**flags, **self._case()}, anew=folder)

    def _training(self, steps, folder, checkpoints, anew=None):
        recipe, settings, total = self.recipe, self.settings, sum(steps)
        phases = zip(recipe.phases, steps, strict=True)
        flags = {
            "input_file": [self._record_file(length) for length in recipe.row_lengths],
            "output_dir": folder,
            "do_train": True,
            **self._begins_as(),
            **self._case(),
            "phases": ",".join(f"{phase.row_length}x{count}@{phase.batch_size}" for phase, count in phases),
            "num_warmup_steps": max(1, min(recipe.warmup_steps, total // 5)),
            **self._masks(),
            **recipe.pretraining,
            "precision": settings.precision,
            "seed": settings.seed,
            "save_checkpoints_steps": -(-total // checkpoints),
            "keep_checkpoints": 1,
        }
        scored = {"eval_file": self._held_out_file, "do_eval": True} if settings.eval_file else {}
        return Command("run_pretraining", flags | scored, anew)

    def _begins_as(self):
        if self.settings.teacher:
            return {"init_checkpoint": self._first_folder, "teacher": self.settings.teacher}
        return {"bert_config_file": self.config_file, "vocab_file": self.vocab_file}

    def _masks(self):
        """Returns how many pieces a row of the shortest has masked at most: room for all that are asked for."""
        share = self.recipe.pretraining.get("masked_lm_prob")
        return {"max_predictions_per_seq": math.ceil(share * self.recipe.row_lengths[0])} if share else {}

    def _of_text(self):
        """Returns the flags for reading text that the user gave."""
        return {name: self.settings.get(name) for name in _OF_TEXT if name in self.settings.given} | self._case()

    def _case(self):
        lower = self.settings.do_lower_case
        return {} if lower is None else {"do_lower_case": lower}

    @property
    def _first_folder(self):
        return self.work / "first_weights"

    @property
    def _held_out_file(self):
        return self.work / "held_out.tfrecord"

    def _record_file(self, length):
        return self.work / f"records-{length}.tfrecord"


def _as_texts(flags):
    """Returns the flags as they are typed: lists with commas, false as text; true stays, and is typed by its name."""
    texts = {name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in flags.items()}
    return {name: "false" if value is False else value for name, value in texts.items()}
