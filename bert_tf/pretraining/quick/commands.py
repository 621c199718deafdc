"""The commands of quick pretraining, and the checks of its inputs."""

import dataclasses
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.quick.plan import CHECKPOINTS, TRIAL_CHECKPOINTS, TRIAL_STEPS, SizeRecipe, spread_layers
from bert_tf.pretraining.record_metadata import number_of_rows
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary, vocabulary_in
from bert_tf.utils import text_files
from bert_tf.utils.files import content_of
from bert_tf.utils.names import MASK, number_of
from bert_tf.utils.settings import command_line
from bert_tf.utils.subprocesses import display_path

# === Options and inputs ===
# What a run is given, and what is wrong with it: said before it begins, and not after minutes.


_PATHS = ("input_file", "eval_file", "teacher", "vocab_file")
# What does not change the result; with more minutes, a run that had too few goes on.
_INDIFFERENT = ("output_dir", "minutes", "text_flags")


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuickOptions:
    """The text, vocabulary or teacher that a small encoder is made of, and the minutes it may take.

    Attributes:
        input_file: files, globs or folders of text.
        eval_file: text that is not trained on, to score on.
        teacher: a model's folder, some of whose layers the encoder begins as.
        vocab_file: the vocabulary; None: the teacher's, or one of `vocab_size` tokens is learned.
        vocab_size: see there.
        do_lower_case: None: as the vocabulary says.
        input_format, text_column, document_start, language: how text is read.
        precision: what layers compute in; "auto": as the processor does fast.
        seed: of all that is drawn.
        output_dir: where the encoder goes.
        minutes: for all.
        text_flags: those flags for reading text that are passed on to the programs that read it.
    """

    input_file: list[str]
    eval_file: list[str] | None = None
    teacher: str | None = None
    vocab_file: str | None = None
    vocab_size: int
    do_lower_case: bool | None = None
    input_format: str | None = None
    text_column: str = "text"
    document_start: str | None = None
    language: str = "en"
    precision: str = "auto"
    seed: int = 0
    output_dir: str
    minutes: float
    text_flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def check_inputs(options: QuickOptions, recipe: SizeRecipe):
    """Raises ValueError where texts, vocabulary or teacher are not there, or not what they must be."""
    _check_texts(options)
    if options.vocab_file:
        _check_vocabulary(options.vocab_file)
    if options.teacher:
        _check_teacher(options.teacher, recipe)


def check_vocabulary_size(size: int, path: str | os.PathLike, width: int):
    """Raises ValueError where an encoder is wider than the vocabulary: its embeddings begin as neighbours' vectors.

    Args:
        size: tokens of the vocabulary.
        path: where it lies.
        width: of the encoder.
    """
    if size < width:
        raise ValueError(
            f"The vocabulary must have as many pieces as the encoder is wide, {width}. Received {size} in "
            f"{os.fspath(path)}; begin in another `output_dir` with more text, of more different words, or with "
            "another `vocab_file`."
        )


def check_rows(rows: Mapping[int, int], recipe: SizeRecipe):
    """Raises ValueError where the text is not enough for one step of a phase; `rows` are those of each length."""
    for phase in recipe.phases:
        if (there := rows[phase.row_length]) < phase.batch_size:
            words = 3 * phase.batch_size * phase.row_length // 4  # of English; other languages have fewer
            raise ValueError(
                f"`input_file` must be text for one step at least, {phase.batch_size} rows of {phase.row_length} "
                f"pieces, some {words:,} words. Received text for {there}; begin in another `output_dir` with more: a "
                "useful encoder takes megabytes."
            )


def identity(options: QuickOptions, recipe: SizeRecipe) -> dict:
    """Returns the options, files' contents and recipe that decide the result, as JSON values."""
    values = {name: value for name, value in dataclasses.asdict(options).items() if name not in _INDIFFERENT}
    for name in _PATHS:
        path = values[name]
        values[name] = [*map(os.path.abspath, path)] if isinstance(path, list) else path and os.path.abspath(path)
    paths = [path for texts in _texts(options) for path in texts]
    paths += [options.vocab_file] if options.vocab_file else []
    contents = {os.path.abspath(path): content_of(path) for path in paths}
    return {**values, "contents": contents, "recipe": recipe.to_dict()}


def _texts(options):
    """Returns the files of text to train on, and those of held-out text, if there is some."""
    return [text_files.find_text_files(texts) for texts in (options.input_file, options.eval_file) if texts]


def _check_texts(options):
    found = _texts(options)
    for paths in found:
        if not any(map(os.path.getsize, paths)):
            raise ValueError(
                f"Text must be there. Received {number_of(len(paths), 'file')} without any, such as {paths[0]}; name "
                "others."
            )
    train, held_out = ({*map(os.path.realpath, paths)} for paths in (*found, [])[:2])
    if both := train & held_out:
        raise ValueError(
            f"`eval_file` must be text that is not trained on. Received {min(both)}, which `input_file` names too; "
            "move it out of there."
        )


def _check_teacher(teacher, recipe):
    path = pathlib.Path(vocabulary_in(teacher))
    if not path.is_file():
        raise ValueError(
            f"`teacher` must be a model's folder with {VOCAB_FILE} or tokenizer.json, by which the records are made. "
            f"Received {teacher}, where there is none; name another teacher, or train without one."
        )
    _check_vocabulary(path)
    depth = EncoderConfig.load(teacher).num_hidden_layers
    if depth <= recipe.layers:
        raise ValueError(
            f"`teacher` must have more than the {recipe.layers} layers of its student. Received {teacher} with "
            f"{depth}; name a larger one, or fine-tune this one itself."
        )


def _check_vocabulary(path):
    if Vocabulary.read(path).id_of(MASK) is None:
        raise ValueError(
            f"The vocabulary must hold {MASK}. Received {os.fspath(path)} without it; append it as a line of its own, "
            "or leave `vocab_file` out, and one is learned."
        )


# === Commands ===
# The programs that a run consists of, with their flags.


WORK = "work"  # in the output directory: all that the result does not consist of


@dataclasses.dataclass(frozen=True)
class Command:
    """A program with its flags.

    Attributes:
        program, flags: see there.
        fresh: a folder that must not be there when it starts.
    """

    program: str
    flags: Mapping[str, Any]
    fresh: pathlib.Path | None = None

    def words(self) -> list[str]:
        """Returns the command line: lists with commas, false as text; true by the name of its flag alone."""
        texts = {}
        for name, value in self.flags.items():
            value = ",".join(map(str, value)) if isinstance(value, list) else value
            texts[name] = "false" if value is False else value
        return [display_path(sys.executable), "-m", "bert_tf", self.program, *command_line(texts)]

    def __str__(self):
        """Returns it on one line, for a shell."""
        return shlex.join(self.words())


class Commands:
    """The command of each step.

    Args:
        options: of the run, the precision settled.
        recipe: how the encoder is made.
        depth: layers of the teacher, if there is one.

    Attributes:
        options, recipe: as given.
        folder: where the result lies.
        work: where all else lies.
        config_file: of an encoder that begins from random weights.
        calibration_folder: where the calibration trains.
        vocab_file: that of the user or the teacher, or the one that is learned.
    """

    def __init__(self, options: QuickOptions, recipe: SizeRecipe, depth: int = 0):
        self.options, self.recipe, self._depth = options, recipe, depth
        self.folder = pathlib.Path(options.output_dir)
        self.work = self.folder / WORK
        self.config_file = self.work / "bert_config.json"
        self.calibration_folder = self.work / "calibration"
        given = vocabulary_in(options.teacher) if options.teacher else options.vocab_file
        self.vocab_file = pathlib.Path(given or self.work / VOCAB_FILE)
        self._first_folder = self.work / "first_weights"
        self._record_files = {length: self.work / f"records-{length}.tfrecord" for length in recipe.row_lengths}
        self._held_out_file = self.work / "held_out.tfrecord"
        self._case = {} if options.do_lower_case is None else {"do_lower_case": options.do_lower_case}

    def before_training(self) -> dict[str, Command]:
        """Returns the steps by name, in order, that make the records and the weights to begin with."""
        options, steps = self.options, {}
        if not (options.teacher or options.vocab_file):
            flags = {"input_file": options.input_file, "output_file": self.vocab_file, "vocab_size": options.vocab_size}
            steps["vocabulary"] = Command("train_vocabulary", {**flags, **options.text_flags, **self._case})
        for length, path in self._record_files.items():
            steps[f"records of {length}"] = self._records(options.input_file, path, length)
        if options.eval_file:
            length = self.recipe.phases[-1].row_length
            steps["held-out records"] = self._records(options.eval_file, self._held_out_file, length)
        if options.teacher:
            layers = spread_layers(self.recipe.layers, self._depth)
            flags = {"model": options.teacher, "layers": layers, "output_dir": self._first_folder}
            steps["first weights"] = Command("surgery", {**flags, **self._case}, fresh=self._first_folder)
        return steps

    def rows(self) -> dict[int, int]:
        """Returns how many rows of each length the records have, once they are made."""
        return {length: number_of_rows(path) for length, path in self._record_files.items()}

    def calibration(self) -> Command:
        """Returns the training of `TRIAL_STEPS` in each phase."""
        steps = [TRIAL_STEPS] * len(self.recipe.phases)
        return self._training(steps, self.calibration_folder, TRIAL_CHECKPOINTS, fresh=self.calibration_folder)

    def training(self, steps: Sequence[int]) -> Command:
        """Returns the training of so many steps in each phase."""
        return self._training(steps, self.folder, CHECKPOINTS)

    def _records(self, texts, path, length):
        flags = {"input_file": texts, "output_file": path, "vocab_file": self.vocab_file, "max_seq_length": length}
        flags |= {**self.recipe.records, "random_seed": self.options.seed}
        return Command("create_pretraining_data", {**flags, **self.options.text_flags, **self._case})

    def _training(self, steps, folder, checkpoints, fresh=None):
        recipe, options, total = self.recipe, self.options, sum(steps)
        phases = zip(recipe.phases, steps, strict=True)
        if options.teacher:
            start = {"init_checkpoint": self._first_folder, "teacher": options.teacher}
        else:
            start = {"bert_config_file": self.config_file, "vocab_file": self.vocab_file}
        masked = recipe.pretraining.get("masked_lm_prob")  # of the shortest rows; longer ones have room in proportion
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
            **recipe.pretraining,
            "precision": options.precision,
            "seed": options.seed,
            "save_checkpoints_steps": -(-total // checkpoints),
            "keep_checkpoints": 1,
        }
        scored = {"eval_file": self._held_out_file, "do_eval": True} if options.eval_file else {}
        return Command("run_pretraining", flags | scored, fresh)
