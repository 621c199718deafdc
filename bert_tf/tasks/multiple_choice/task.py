"""Multiple choice (SWAG; Devlin et al. 2018, section 4.4)."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.columns import NAME, TEXT, without_surrogates
from bert_tf.data.dialect import DEFAULT_DIALECT, Dialect
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.list_cells import as_list
from bert_tf.data.row_errors import excerpt, line_position
from bert_tf.data.table_columns import Column
from bert_tf.data.table_reader import names_in, read_rows
from bert_tf.data.tables import read_files, refuse_missing
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.abstention import Abstention
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.error_reports.single_label import MultipleChoiceReport
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.recurrent import bilstm_on_top
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks.abstention import Abstaining, check_abstention, check_kept
from bert_tf.tasks.base import TaskData, TrainedTask
from bert_tf.tasks.foreign_models import names_class
from bert_tf.tasks.losses import divergence
from bert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from bert_tf.tasks.recurrent import RECURRENT_HEAD, lstm_option
from bert_tf.tasks.sequences import MISSING, encode_served_lists, encode_text_lists
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Files ===
# Multiple-choice questions: SWAG's tables (Zellers et al. 2018), and .jsonl or .parquet with any number of choices.


_LISTS = (".jsonl", ".parquet")  # the formats in which a value can be a list
_OWN = (
    'a line is {"context": ..., "choices": [..., ...], "label": ...}: text, texts, and the index of the correct choice'
)
_SWAG = (
    "SWAG's columns are sent1, sent2, ending0, ending1, ... and label; write other questions as .jsonl with context, "
    "choices and label"
)


@dataclasses.dataclass(frozen=True)
class ChoiceExamples:
    """n questions in the order of the file, as parallel lists.

    Attributes:
        ids: name of each; "0", "1", ... if the file has none.
        contexts: context of each question.
        choices: at least two texts each.
        labels: index of the correct choice. If None, they were not requested.
        path: the file.
        lines: 1-based line where each begins; for a Parquet file, the 1-based row.
    """

    ids: list[str]
    contexts: list[str]
    choices: list[list[str]]
    labels: list[int] | None
    path: str
    lines: list[int] | list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, index: int) -> str:
        """Returns "file:line" of question `index`, the beginning of error messages."""
        return line_position(self.path, self.lines[index])


def read_choice_file(
    path: str | os.PathLike, with_labels: bool, dialect: Dialect = DEFAULT_DIALECT
) -> ChoiceExamples:
    """Reads a file of questions, or several; its extension decides the format; .gz files are decompressed.

    .csv and .tsv: SWAG's. The context is `sent1`; a choice is `sent2`, the beginning of the second sentence, and one of
    `ending0`, `ending1`, ..., its end. All questions have as many choices as there are such columns.
    .jsonl and .parquet: `context`, `choices`, a list of at least two texts, and an `id` if the first question has one.
    Other columns are ignored in all formats.

    Args:
        path: the file; several as `files.find_files` takes them.
        with_labels: whether to read `label`, the index of the correct choice, from 0.
        dialect: how a text file is written.

    Raises:
        ValueError: the file is invalid; the message names the file, the line, the problem and a fix.
    """
    return read_files(path, lambda path: _read_questions(path, with_labels, dialect))


def _read_questions(path, with_labels, dialect):
    in_lists = path.lower().removesuffix(".gz").endswith(_LISTS)
    names = names_in(path, dialect)
    wanted, take = _of_lists(names) if in_lists else _of_swag(names)
    has_id, texts = in_lists and "id" in names, list(wanted)
    wanted += [_column("label", "the index of the correct choice, from 0", wanted)] if with_labels else []
    wanted += [_column("id", "the name of each question", wanted)] if has_id else []
    rows = read_rows(path, wanted, header=True, dialect=dialect)
    if not rows:
        raise ValueError(f"{path} contains no questions. Check the path.")
    refuse_missing(path, rows, texts)
    examples = ChoiceExamples([], [], [], [] if with_labels else None, path, [line for line, _ in rows])
    for i, (line, values) in enumerate(rows):
        at = line_position(path, line)
        examples.ids.append(_id(at, values.pop()) if has_id else str(i))
        label = values.pop() if with_labels else None
        context, choices = take(at, values)
        examples.contexts.append(context)
        examples.choices.append(choices)
        if with_labels:
            examples.labels.append(_label(at, label, len(choices)))
    return examples


def _column(name, meaning, like):
    return Column(name, remedy=like[0].remedy, meaning=meaning)


def _of_swag(names):
    """Returns the required columns of a table, and the function from a row's values to context and choices."""
    count = 2
    while f"ending{count}" in names:
        count += 1
    meanings = {"sent1": "the context", "sent2": "the beginning of every choice"}
    meanings |= {f"ending{i}": f"choice {i}" for i in range(count)}

    def take(at, values):
        context, begin, *endings = values
        for i, ending in enumerate(endings):
            if not ending.strip():
                raise ValueError(
                    f"{at}: every choice must have text, and all questions of a table must have {count} choices. "
                    f"Received {ending!r} in column 'ending{i}'; fill it in, or write the questions as .jsonl, where "
                    "the number of choices may vary."
                )
        return context, [f"{begin} {ending}" if begin.strip() else ending for ending in endings]

    return [Column(name, remedy=_SWAG, meaning=meaning) for name, meaning in meanings.items()], take


def _of_lists(names):
    """Like `_of_swag`, for files with list values."""
    meanings = {"context": "the context of the choices", "choices": "a list of texts"}
    return [Column(name, remedy=_OWN, meaning=meaning) for name, meaning in meanings.items()], _take_lists


def _take_lists(at, values):
    context, choices = values[0], as_list(values[1])
    if TEXT.read(context) is None:
        raise ValueError(f"{at}: 'context' must be a string. Received: {excerpt(context)}; {_OWN}.")
    if not isinstance(choices, list) or len(choices) < 2:
        raise ValueError(f"{at}: 'choices' must be a list of at least two texts. Received: {excerpt(choices)}; {_OWN}.")
    for i, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice.strip():
            raise ValueError(
                f"{at}: every choice must have text. Received {excerpt(choice)} as choice {i} of {excerpt(choices)}; "
                "fill it in, or remove it from the list."
            )
    return context, list(map(without_surrogates, choices))


def _label(at, value, count):
    text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if text.isascii() and text.isdecimal() and int(text) < count:
        return int(text)
    raise ValueError(
        f"{at}: the label must be the index of the correct choice, from 0 to {count - 1}. Received: "
        f"{excerpt(value)}; correct this line."
    )


def _id(at, value):
    name = NAME.read(value)
    if name is None:
        raise ValueError(f"{at}: {NAME.must}. Received 'id': {excerpt(value)}; correct this line.")
    return name


# === Encoding ===
# Questions and their choices: one sequence per choice.


def encode_choices(tokenizer, examples: ChoiceExamples, max_seq_length: int) -> Windowed:
    """Encodes questions as in `encode_text_lists`, with `label_ids` int32 [n] if available."""
    encoded = encode_text_lists(tokenizer, examples.contexts, examples.choices, max_seq_length, examples.path)
    targets = {} if examples.labels is None else {"label_ids": np.array(examples.labels, np.int32)}
    return dataclasses.replace(encoded, targets=targets)


# === Writers ===
# Prediction files of multiple choice.


TABLE_FILE, ANSWERS_FILE = "test_results.tsv", "predictions.jsonl"


def write_choice_predictions(
    directory: str, examples: ChoiceExamples, answers: list[np.ndarray], more: Mapping[str, Sequence] | None = None
):
    """Writes test_results.tsv (tab-separated probabilities, one line per question) and predictions.jsonl.

    A line of predictions.jsonl has `id`, `context`, `choices`, and the fields of the served prediction: `choice` and
    `probabilities`, and `confident` if the model provides it.

    Args:
        directory: output directory.
        examples: the n questions.
        answers: the probabilities of each question's choices, float [its choices].
        more: {field: n values} of the served prediction, in addition.
    """
    with atomic_open(os.path.join(directory, TABLE_FILE)) as file:
        for row in answers:
            file.write("\t".join(map(str, row)) + "\n")
    with atomic_open(os.path.join(directory, ANSWERS_FILE)) as file:
        parts = examples.ids, examples.contexts, examples.choices, answers
        for n, (name, context, choices, row) in enumerate(zip(*parts, strict=True)):
            line = {"id": name, "context": context, "choices": choices, "choice": int(row.argmax())}
            # str gives a float32 as many digits as it needs; tolist alone would show those of its double.
            line["probabilities"] = row.astype(str).astype(np.float64).tolist()
            line |= {field: values[n] for field, values in (more or {}).items()}
            file.write(json_text(line, ensure_ascii=False) + "\n")


# === Task ===
# Multiple choice: which of several texts matches a context (Devlin et al. 2018, section 4.4, on SWAG).


class MultipleChoiceTask(Abstaining):
    """Multiple choice: an encoder with one logit per choice; see `tasks/base.py` for the methods.

    A choice and the context form one sequence. Its logit is a `ClassificationHead` with one output on the pooled
    output, the paper's vector C; the softmax is over the choices of a question. The number of choices may vary.

    Args:
        config: configuration of the encoder.
        gradient_checkpointing: as in `Encoder`.
        every_window: as in `models/windows.py`: whether the model will be compiled with XLA.
        lstm_units: units per direction of a BiLSTM between encoder and head, which then reads all tokens. If None,
            there is none.
        abstention: as in `ClassificationTask`.
    """

    name = "multiple_choice"
    options = MultipleChoiceOptions()
    files = (*Abstaining.files, TABLE_FILE, ANSWERS_FILE)
    features = ENCODER_INPUTS
    targets = ("label_ids",)
    head = ("classifier/.*",)
    uses_pooler = has_windows = True
    architecture = "ForMultipleChoice"
    list_inputs = ("choices",)
    reads_whole_texts = False
    metric_names = ("accuracy",)

    def __init__(
        self,
        config: EncoderConfig,
        gradient_checkpointing: bool = False,
        every_window: bool = False,
        lstm_units: int | None = None,
        abstention: Abstention | dict | None = None,
    ):
        self.config = config if lstm_units else _with_pooler(config)
        self.gradient_checkpointing = gradient_checkpointing
        self.every_window = every_window
        self.lstm_units = lstm_units
        self.take_abstention(abstention)
        if lstm_units:
            self.head, self.uses_pooler, self.architecture = RECURRENT_HEAD, False, None

    @classmethod
    def from_pretrained(cls, directory, model):
        is_one = names_class(model.config, cls.architecture)
        return TrainedTask(cls(model.config), ("context", "choices"), model.config.max_length) if is_one else None

    @classmethod
    def read_data(cls, options, kinds, trained):
        check_abstention(options)
        examples = {}
        for kind in kinds:
            examples[kind] = read_choice_file(options.file_of(kind, "questions"), kind != "test", options.dialect)
        return TaskData(examples, ("context", "choices"))

    @classmethod
    def checked_examples(cls, examples, data, options):
        """Returns the data to check; the indices of the correct choices are not labels."""
        texts = {"context": examples.contexts, "choices": list(map("\n".join, examples.choices))}
        more = {"optional": ("context",), "dialect": options.dialect}
        return CheckedExamples(examples.path, examples.where, texts, examples.labels, **more)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        of_run = {"gradient_checkpointing": options.gradient_checkpointing, "every_window": use_xla}
        if before and not options.do_train:
            check_kept("fit_abstention", options.fit_abstention, options.output_dir)
            return cls(model.config, **before.task.to_dict(), **of_run)
        of_run |= {"abstention": before.task.abstention if before else None}  # kept by a finished run
        return cls(model.config, **of_run, lstm_units=options.lstm_units)

    def to_dict(self):
        return lstm_option(self.lstm_units) | self.abstention_as_option()

    def identity(self):
        return lstm_option(self.lstm_units)

    def build_model(self) -> keras.Model:
        """Builds a model from `features`, int32 [B, N, S], to the choices' logits, float32 [B, N]."""
        inputs = keras_inputs(self.features, windows=True)
        sequences = TakeWindows(self.every_window, name="take_choices")(inputs)
        scores = self._scores(Encoder(self.config, gradient_checkpointing=self.gradient_checkpointing), sequences)
        together = RowsTogether(self.every_window, MISSING, name="choices")(scores, inputs["input_mask"])
        return keras.Model(inputs, keras.ops.squeeze(together, -1), name="multiple_choice")

    def _scores(self, encoder, sequences):
        if self.lstm_units:
            return bilstm_on_top(encoder, sequences, 1, self.lstm_units, of_row=True)
        head = ClassificationHead.of(self.config, 1, transforms=not self.config.has_pooler)
        return head(encoder(sequences)["pooled_output"])

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        return encode_choices(tokenizer, examples, max_seq_length)

    def example_losses(self, outputs, batch):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], outputs)
        return losses, tf.ones_like(losses)

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        return divergence(outputs, teacher_outputs, temperature)

    def reduce_outputs(self, outputs, batch):
        """Returns the probabilities, float32 [B, N], 0 for missing choices."""
        return _probabilities(outputs)

    def metrics(self, outputs, encoded):
        return {"accuracy": float(np.mean(outputs.argmax(-1) == encoded.targets["label_ids"]))}

    def certainty(self, outcome):
        return outcome.outputs.max(-1), outcome.outputs.argmax(-1) == outcome.encoded.targets["label_ids"]

    def error_report(self, outcome):
        examples, labels = outcome.examples, [str(i) for i in range(outcome.outputs.shape[1])]
        shown = DisplayedExamples(
            examples.path, examples.ids, examples.lines, {"context": examples.contexts}, outcome.encoded.lengths,
            "tokens of all choices",
        )  # fmt: skip
        return MultipleChoiceReport(
            examples=shown,
            gold=outcome.encoded.targets["label_ids"],
            probabilities=outcome.outputs,
            labels=labels,
            meanings=examples.choices,
        )

    def decode(self, outcome) -> list[np.ndarray]:
        counts = map(len, outcome.examples.choices)
        return [row[:count] for row, count in zip(outcome.outputs, counts, strict=True)]

    def write_answers(self, directory, outcome, answers):
        confident = self.confident(outcome.outputs.max(-1))
        more = {name: each.tolist() for name, each in confident.items()}
        write_choice_predictions(directory, outcome.examples, answers, more)

    def card_limitations(self, max_seq_length):
        return [
            f"A context and a choice together are truncated to {max_seq_length} tokens, including special tokens.",
            "It always picks one of the choices, even if none is correct.",
        ]

    def preprocess(self, tokenizer, texts: Sequence[tf.Tensor], max_seq_length: int):
        contexts, choices = texts
        return encode_served_lists(tokenizer, contexts, choices, max_seq_length), None

    def postprocess(self, outputs, origin=None):
        """Returns the most probable choice of each question.

        Args:
            outputs: logits float32 [n, k].
            origin: unused.

        Returns:
            `choice` int32 [n], from 0; -1 if there are no choices. `probabilities` float32 [n, k]; 0 for missing
            choices. `confident` bool [n], if the task has an abstention.
        """
        probabilities = _probabilities(outputs)
        choice = tf.argmax(probabilities, -1, tf.int32)
        there = tf.reduce_any(probabilities > 0, -1)
        served = {"choice": tf.where(there, choice, -1), "probabilities": probabilities}
        return served | self.confident(tf.reduce_max(probabilities, -1))


def _with_pooler(config: EncoderConfig) -> EncoderConfig:
    """Returns the configuration with a pooler, for families whose text classifier has that map in its own head.

    As in Transformers, so that its trained models can be read: RobertaForMultipleChoice has a pooler,
    RobertaForSequenceClassification has none.
    """
    return dataclasses.replace(config, has_pooler=True) if config.classifier_act == "tanh" else config


def _probabilities(logits):
    return tf.where(logits > MISSING / 2, tf.nn.softmax(logits), 0.0)
