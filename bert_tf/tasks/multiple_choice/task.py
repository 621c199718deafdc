"""Multiple choice (SWAG; Devlin et al. 2018, section 4.4)."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
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
from bert_tf.tasks.divergences import divergence
from bert_tf.tasks.foreign_models import names_class
from bert_tf.tasks.multiple_choice.data import encode_choices, read_choice_file
from bert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from bert_tf.tasks.multiple_choice.outputs import ANSWERS_FILE, TABLE_FILE, write_choice_predictions
from bert_tf.tasks.recurrent import RECURRENT_HEAD, lstm_option
from bert_tf.tasks.text_lists import MISSING, encode_served_lists


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
