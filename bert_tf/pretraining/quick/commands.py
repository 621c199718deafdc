"""The commands of quick pretraining: programs with flags, one for each step."""

import dataclasses
import functools
import math
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.checkpoints.model_tokenizer import read_model_tokenizer
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick.plan import CHECKPOINTS, TRIAL_CHECKPOINTS, TRIAL_STEPS
from bert_tf.pretraining.quick.recipe import SizeRecipe, spread_layers
from bert_tf.pretraining.record_files import number_of_rows
from bert_tf.pretraining.settings import QuickOptions
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path

WORK = "work"  # in the output directory: everything but the result


@dataclasses.dataclass(frozen=True)
class Command:
    """A program with its flags.

    Attributes:
        program, flags: the `bert-tf` command, such as "vocab train", and its flags.
        fresh: a directory that must not exist when it starts.
    """

    program: str
    flags: Mapping[str, Any]
    fresh: pathlib.Path | None = None

    def words(self) -> list[str]:
        """Returns the command line: lists joined by commas, false as text, and true as the flag's name only."""
        texts = {}
        for name, value in self.flags.items():
            value = ",".join(map(str, value)) if isinstance(value, list) else value
            texts[name] = "false" if value is False else value
        return [display_path(sys.executable), "-m", "bert_tf", *self.program.split(), *command_line(texts)]

    def __str__(self):
        """Returns the command on one line, for a shell."""
        return shlex.join(self.words())


class Commands:
    """The command of each step.

    Args:
        options: options of the run, with the precision determined.
        recipe: the recipe of the encoder.
        depth: number of the teacher's layers, if there is one.

    Attributes:
        options, recipe: as given.
        folder: directory of the result.
        work: directory of everything else.
        config_file: configuration of a randomly initialized encoder.
        calibration_folder: directory of the calibration run.
        vocab_file: the user's or the learned vocabulary.
        tokenizer_directory: directory of the model whose tokenizer is used instead, or None.
    """

    def __init__(self, options: QuickOptions, recipe: SizeRecipe, depth: int = 0):
        self.options, self.recipe, self._depth = options, recipe, depth
        self.folder = pathlib.Path(options.output_dir)
        self.work = self.folder / WORK
        self.config_file = self.work / "bert_config.json"
        self.calibration_folder = self.work / "calibration"
        self.vocab_file = pathlib.Path(options.vocab_file or self.work / VOCAB_FILE)
        self.tokenizer_directory = options.teacher or options.tokenizer
        self._first_folder = self.work / "first_weights"
        self._record_files = {length: self.work / f"records-{length}.tfrecord" for length in recipe.row_lengths}
        self._held_out_file = self.work / "held_out.tfrecord"
        self._case = {} if options.do_lower_case is None else {"do_lower_case": options.do_lower_case}

    @functools.cached_property
    def config(self) -> EncoderConfig:
        """Configuration of a randomly initialized encoder: BERT's, or that of the tokenizer's model in another size.

        The vocabulary must exist.
        """
        sizes = self.recipe.config
        if not self.tokenizer_directory:
            return EncoderConfig(vocab_size=len(Vocabulary.read(self.vocab_file).tokens), **sizes)
        directory = self.tokenizer_directory
        tables = read_model_tokenizer(directory, self.options.do_lower_case)
        config = EncoderConfig.load(directory)
        positions = sizes["max_position_embeddings"] + config.first_position  # those before the first are never used
        changes = {"max_position_embeddings": positions, "vocab_size": tables.vocab_size}
        return dataclasses.replace(config, **{**sizes, **changes}, lora=None, pruned_heads=None, extra={})

    def before_training(self) -> dict[str, Command]:
        """Returns the steps that create the records and the initial weights, by name and in order."""
        options, steps = self.options, {}
        if not (self.tokenizer_directory or options.vocab_file):
            flags = {"input_file": options.input_file, "output_file": self.vocab_file, "vocab_size": options.vocab_size}
            steps["vocabulary"] = Command("vocab train", {**flags, **options.text_flags, **self._case})
        for length, path in self._record_files.items():
            steps[f"records of {length}"] = self._records(options.input_file, path, length)
        if options.eval_file:
            length = self.recipe.phases[-1].row_length
            steps["held-out records"] = self._records(options.eval_file, self._held_out_file, length)
        if options.teacher:
            layers = spread_layers(self.recipe.layers, self._depth)
            flags = {"model": options.teacher, "layers": layers, "output_dir": self._first_folder}
            steps["first weights"] = Command("model edit", {**flags, **self._case}, fresh=self._first_folder)
        return steps

    def rows(self) -> dict[int, int]:
        """Returns the number of rows of each length, once the records exist."""
        return {length: number_of_rows(path) for length, path in self._record_files.items()}

    def calibration(self) -> Command:
        """Returns the command that trains `TRIAL_STEPS` in each phase."""
        steps = [TRIAL_STEPS] * len(self.recipe.phases)
        return self._training(steps, self.calibration_folder, TRIAL_CHECKPOINTS, fresh=self.calibration_folder)

    def training(self, steps: Sequence[int]) -> Command:
        """Returns the command that trains the given number of steps in each phase."""
        return self._training(steps, self.folder, CHECKPOINTS)

    def _records(self, texts, path, length):
        flags = {"input_file": texts, "output_file": path, **self._tokenizer_flags, "max_seq_length": length}
        flags |= {**self.recipe.records, "random_seed": self.options.seed}
        return Command("pretrain data", {**flags, **self.options.text_flags, **self._case})

    @property
    def _tokenizer_flags(self):
        directory = self.tokenizer_directory
        return {"init_checkpoint": directory} if directory else {"vocab_file": self.vocab_file}

    def _training(self, steps, folder, checkpoints, fresh=None):
        recipe, options, total = self.recipe, self.options, sum(steps)
        phases = zip(recipe.phases, steps, strict=True)
        if options.teacher:
            start = {"init_checkpoint": self._first_folder, "teacher": options.teacher}
        else:
            start = {"bert_config_file": self.config_file}
            start |= {} if options.tokenizer else {"vocab_file": self.vocab_file}  # or that of the records
        learning = dict(recipe.pretraining)
        if options.tokenizer and not self.config.has_position_table:
            learning.pop("start_positions", None)
        masked = recipe.pretraining.get("masked_lm_prob")  # for the shortest rows; proportional for longer ones
        most = {"max_predictions_per_seq": math.ceil(masked * recipe.row_lengths[0])} if masked else {}
        flags = {
            "input_file": list(self._record_files.values()),
            "output_dir": folder,
            "do_train": True,
            **start,
            **self._case,
            "phases": ",".join(f"{phase.row_length}x{count}@{phase.batch_size}" for phase, count in phases),
            "num_warmup_steps": max(1, min(recipe.warmup_steps, total // 5)),
            **most,
            **learning,
            "precision": options.precision,
            "seed": options.seed,
            "save_checkpoints_steps": -(-total // checkpoints),
            "keep_checkpoints": 1,
        }
        scored = {"eval_file": self._held_out_file, "do_eval": True} if options.eval_file else {}
        return Command("pretrain run", flags | scored, fresh)
