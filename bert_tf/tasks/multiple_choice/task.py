"""Multiple choice: which of several texts goes with a context (Devlin et al. 2018, section 4.4, on SWAG)."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_tf.data.checks.samples import Sample
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation.abstention import Abstention
from bert_tf.evaluation.error_reports.choices import Options
from bert_tf.evaluation.error_reports.judged import Shown
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.recurrent import bilstm_on_top
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks import recurrent
from bert_tf.tasks.abstention import Abstaining, check_kept, check_settings
from bert_tf.tasks.multiple_choice import options, writers
from bert_tf.tasks.multiple_choice.files import ChoiceExamples, read_choices
from bert_tf.tasks.multiple_choice.rows import choice_rows, served_rows
from bert_tf.tasks.soft_targets import divergence
from bert_tf.tasks.task import ACTIONS
from bert_tf.utils.settings import Settings

_NEVER = -1e30  # the logit of what is no choice: its exponential is 0


@dataclasses.dataclass(frozen=True)
class ChoiceData:
    """Questions with the right choice, or to answer; see `task.TaskData`."""

    examples: dict[str, ChoiceExamples]
    text_inputs: tuple[str, ...] = ("context", "choices")


class MultipleChoiceTask(Abstaining):
    """The encoder with one score for each choice; see `tasks/task.py` for what the methods mean.

    A choice and the context make one row. Its score is a `ClassificationHead` of one output on the pooled output, the
    paper's vector C; the softmax is over the choices of a question. Questions may differ in how many they have.

    Args:
        config: of the encoder.
        rematerialize: as in `Encoder`.
        every_window: as in `models/windows.py`: the model is to be trained or asked with XLA.
        lstm_units: of each direction of a BiLSTM between encoder and head, which then reads all pieces; None: there is
            none.
        abstention: as in `ClassificationTask`.
    """

    name = "multiple_choice"
    flags = options.FLAGS
    files = (*Abstaining.files, writers.TABLE_FILE, writers.ANSWERS_FILE)
    features = ENCODER_INPUTS
    targets = ("label_ids",)
    head = ("classifier/.*",)
    uses_pooler = has_windows = True
    architecture = "ForMultipleChoice"
    list_inputs = ("choices",)
    metric_names = ("accuracy",)

    def __init__(
        self,
        config: EncoderConfig,
        rematerialize: bool = False,
        every_window: bool = False,
        lstm_units: int | None = None,
        abstention: Abstention | dict | None = None,
    ):
        self.config = config if lstm_units else _with_pooler(config)
        self.rematerialize = rematerialize
        self.every_window = every_window
        self.lstm_units = lstm_units
        self.take_abstention(abstention)
        if lstm_units:
            self.head, self.uses_pooler, self.architecture = recurrent.HEAD, False, None

    @classmethod
    def read_data(cls, settings, kinds, trained):
        check_settings(settings)
        return ChoiceData({split: _read(settings, split) for split in kinds})

    @classmethod
    def samples(cls, data, settings):
        return {split: _sample(examples) for split, examples in data.examples.items()}

    @classmethod
    def create(cls, model, data, settings, before, use_xla=False):
        options = {"rematerialize": settings.rematerialize, "every_window": use_xla}
        if before and not settings.do_train:
            check_kept(settings, "fit_abstention")
            return cls(model.config, **before.task.to_dict(), **options)
        options |= {"abstention": before.task.abstention if before else None}  # kept by a run that is finished
        return cls(model.config, **options, lstm_units=recurrent.lstm_units(settings))

    def to_dict(self):
        return recurrent.as_option(self.lstm_units) | self.abstention_as_option()

    def identity(self):
        return recurrent.as_option(self.lstm_units)

    def build_model(self) -> keras.Model:
        """Returns a model from `features`, int32 [B, N, S], to the choices' logits, float32 [B, N]."""
        inputs = keras_inputs(self.features, windows=True)
        rows = TakeWindows(self.every_window, name="take_choices")(inputs)
        scores = self._scores(Encoder(self.config, rematerialize=self.rematerialize), rows)
        together = RowsTogether(self.every_window, _NEVER, name="choices")(scores, inputs["input_mask"])
        return keras.Model(inputs, keras.ops.squeeze(together, -1), name="multiple_choice")

    def _scores(self, encoder, rows):
        if self.lstm_units:
            return bilstm_on_top(encoder, rows, 1, self.lstm_units, of_row=True)
        c = self.config
        act = None if c.has_pooler else c.classifier_act
        return ClassificationHead(1, c.hidden_dropout_prob, c.initializer_range, act)(encoder(rows)["pooled_output"])

    def lay_out(self, tokenizer, examples, max_seq_length, with_targets):
        return choice_rows(tokenizer, examples, max_seq_length)

    def example_losses(self, outputs, batch):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_ids"], outputs)
        return losses, tf.ones_like(losses)

    def soft_losses(self, outputs, taught, batch, temperature):
        return divergence(outputs, taught, temperature)

    def collected(self, outputs, batch):
        """Returns the probabilities, float32 [B, N], 0 for what is no choice."""
        return _probabilities(outputs)

    def metrics(self, outputs, rows):
        return {"accuracy": float(np.mean(outputs.argmax(-1) == rows.targets["label_ids"]))}

    def certainty(self, outcome):
        return outcome.outputs.max(-1), outcome.outputs.argmax(-1) == outcome.rows.targets["label_ids"]

    def judged(self, outcome, settings):
        examples, labels = outcome.examples, [str(i) for i in range(outcome.outputs.shape[1])]
        shown = Shown(
            examples.path, examples.ids, examples.lines, {"context": examples.contexts}, outcome.rows.lengths,
            "word pieces, all choices together",
        )  # fmt: skip
        return Options(examples=shown, gold=outcome.rows.targets["label_ids"], probabilities=outcome.outputs,
                       labels=labels, meanings=examples.choices)  # fmt: skip

    def decode(self, outcome) -> list[np.ndarray]:
        counts = map(len, outcome.examples.choices)
        return [row[:count] for row, count in zip(outcome.outputs, counts, strict=True)]

    def write_answers(self, directory, outcome, answers, settings):
        confident = self.confident(outcome.outputs.max(-1))
        more = {name: each.tolist() for name, each in confident.items()}
        writers.write_predictions(directory, outcome.examples, answers, more)

    def limits(self, max_seq_length):
        return [
            f"A context and a choice together are cut to {max_seq_length} word pieces, special ones included.",
            "It chooses the best of the choices, also where none is right.",
        ]

    @property
    def reads_whole_texts(self):
        return False

    def read(self, tokenizer, texts: Sequence[tf.Tensor], max_seq_length: int):
        contexts, choices = texts
        return served_rows(tokenizer, contexts, choices, max_seq_length), None

    def answer(self, outputs, origin=None):
        """Returns the most probable choice of each question.

        Args:
            outputs: logits float32 [n, k].
            origin: of no use here.

        Returns:
            `choice` int32 [n], from 0; -1 where there is none to choose. `probabilities` float32 [n, k]; 0 for what is
            no choice. `confident` bool [n], where the task has an abstention.
        """
        probabilities = _probabilities(outputs)
        choice = tf.argmax(probabilities, -1, tf.int32)
        there = tf.reduce_any(probabilities > 0, -1)
        served = {"choice": tf.where(there, choice, -1), "probabilities": probabilities}
        return served | self.confident(tf.reduce_max(probabilities, -1))


def _with_pooler(config: EncoderConfig) -> EncoderConfig:
    """Returns the configuration with a pooler, where a classifier has that same map, tanh, in a head of two layers.

    So Transformers has it, and what it trained to choose is read: RobertaForMultipleChoice has a pooler,
    RobertaForSequenceClassification has none.
    """
    return dataclasses.replace(config, has_pooler=True) if config.classifier_act == "tanh" else config


def _read(settings: Settings, split: str) -> ChoiceExamples:
    action = ACTIONS[split]
    path = settings.get(f"{action}_file")
    if not path:
        raise ValueError(f"`do_{action}` must have questions. Received no `{action}_file`; name one.")
    return read_choices(path, with_labels=split != "test")


def _sample(examples):
    """Returns what is checked of questions; the numbers of the right choices are no labels."""
    texts = {"context": examples.contexts, "choices": list(map("\n".join, examples.choices))}
    return Sample(examples.path, examples.where, texts, examples.labels, optional=("context",))


def _probabilities(logits):
    return tf.where(logits > _NEVER / 2, tf.nn.softmax(logits), 0.0)
