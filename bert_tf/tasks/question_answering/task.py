"""Extractive question answering on SQuAD 1.1 and 2.0 (Devlin et al. 2018, sections 4.2 and 4.3)."""

import dataclasses
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import QuestionAnsweringHead, span_logits
from bert_tf.models.recurrent import bilstm_on_top
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.divergences import divergence
from bert_tf.tasks.foreign_models import names_class
from bert_tf.tasks.question_answering.data import read_squad, write_squad_rows
from bert_tf.tasks.question_answering.encoding import encode_squad
from bert_tf.tasks.question_answering.options import SquadOptions
from bert_tf.tasks.question_answering.outputs import (
    PREDICTIONS_FILES,
    QuestionAnswers,
    merge_windows,
    write_squad_predictions,
)
from bert_tf.tasks.question_answering.report import question_report, score_answers
from bert_tf.tasks.question_answering.spans import best_spans, null_score
from bert_tf.tasks.recurrent import RECURRENT_HEAD, lstm_option
from bert_tf.tasks.sequences import at_least_one, pad_sequences
from bert_tf.tokenization.question_windows import encode_questions


class AnswerContext(NamedTuple):
    """The origin of the sequences of n questions.

    Attributes:
        contexts: strings [n], without invalid UTF-8 bytes, which the offsets do not count.
        questions: int64 [w], the question index of each sequence; ascending, and every question has one.
        starts, ends: int32 [w, S], the span in its context that each token came from, in code points; -1 for tokens
            outside the context.
    """

    contexts: tf.Tensor
    questions: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


class QuestionAnsweringTask(FineTuningTask):
    """Question answering: encoder and `QuestionAnsweringHead`; see `tasks/base.py` for the methods.

    Args:
        config: configuration of the encoder.
        n_best_size: number of spans kept per sequence.
        max_answer_length: maximum tokens per answer.
        max_query_length: maximum tokens per question; longer ones are truncated.
        doc_stride: tokens from the start of one window of a context to that of the next.
        null_score_diff_threshold: "no answer" is predicted if the null score minus the best span's is greater than
            this. If None, every question has an answer (SQuAD 1.1).
        gradient_checkpointing: as in `Encoder`.
        lstm_units: units per direction of a BiLSTM between encoder and head. If None, there is none.

    A span's score is the sum of its start and end logits, and the null score is that sum at [CLS]. Over the sequences
    of a question, the best span and the lowest null score are used, as in google-research/bert.
    """

    name = "question_answering"
    options = SquadOptions()
    files = PREDICTIONS_FILES
    features = ENCODER_INPUTS
    head = ("cls/squad/.*",)
    targets = ("start_positions", "end_positions")
    metric_names = ("accuracy",)

    def __init__(
        self,
        config: EncoderConfig,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        max_query_length: int = 64,
        doc_stride: int = 128,
        null_score_diff_threshold: float | None = None,
        gradient_checkpointing: bool = False,
        lstm_units: int | None = None,
    ):
        self.config = config
        self.n_best_size = n_best_size
        self.max_answer_length = max_answer_length
        self.max_query_length = max_query_length
        self.doc_stride = doc_stride
        self.null_score_diff_threshold = null_score_diff_threshold
        self.gradient_checkpointing = gradient_checkpointing
        self.lstm_units = lstm_units
        if lstm_units:
            self.head = RECURRENT_HEAD

    @classmethod
    def from_pretrained(cls, directory, model):
        """Returns the task with the defaults of `SquadOptions`, less where the model has fewer positions."""
        if not names_class(model.config, "ForQuestionAnswering"):
            return None
        longest = min(cls.options.max_seq_length, model.config.max_length)
        lengths = {"max_query_length": cls.options.max_query_length, "doc_stride": cls.options.doc_stride}
        task = cls(model.config, **{name: min(value, longest // 3) for name, value in lengths.items()})
        return TrainedTask(task, ("question", "context"), longest)

    @classmethod
    def write_rows(cls, path, rows):
        return write_squad_rows(path, rows)

    @classmethod
    def read_data(cls, options, kinds, trained):
        examples = {}
        for kind in kinds:
            examples[kind] = read_squad(options.file_of(kind, "questions"), with_answers=kind != "test")
            if True in examples[kind].is_impossible and not options.version_2_with_negative:
                raise ValueError(
                    f"{examples[kind].where(examples[kind].is_impossible.index(True))}: the question has no answer "
                    "(is_impossible), which requires `version_2_with_negative`. Set it, or use a SQuAD 1.1 file."
                )
        return TaskData(examples, ("question", "context"))

    @classmethod
    def checked_examples(cls, examples, data, options):
        """Returns the data to check: identical questions must not differ in whether they are impossible."""
        texts = {"question": examples.questions, "context": examples.contexts}
        return CheckedExamples(examples.path, examples.where, texts, examples.is_impossible, target="is_impossible")

    @classmethod
    def with_trained_defaults(cls, options, trained):
        of_task = trained.task.to_dict()
        with_negative = of_task.pop("null_score_diff_threshold") is not None
        options = super().with_trained_defaults(options, trained)
        return dataclasses.replace(options, **of_task, version_2_with_negative=with_negative)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        threshold = None
        if options.version_2_with_negative:
            default = before and before.task.null_score_diff_threshold
            threshold = next((t for t in (options.null_score_diff_threshold, default) if t is not None), 0.0)
        units = options.lstm_units
        if threshold is not None and model.config.is_decoder and not units:
            logging.warning(
                "The no-answer score is that of [CLS], which in a causal (left-to-right) model sees neither question "
                "nor context, so it is always the same. With `lstm_units`, it sees them."
            )
        return cls(
            model.config,
            n_best_size=options.n_best_size,
            max_answer_length=options.max_answer_length,
            max_query_length=options.max_query_length,
            doc_stride=options.doc_stride,
            null_score_diff_threshold=threshold,
            gradient_checkpointing=options.gradient_checkpointing,
            lstm_units=units,
        )

    def to_dict(self) -> dict:
        return {
            "n_best_size": self.n_best_size,
            "max_answer_length": self.max_answer_length,
            "max_query_length": self.max_query_length,
            "doc_stride": self.doc_stride,
            "null_score_diff_threshold": self.null_score_diff_threshold,
            **lstm_option(self.lstm_units),
        }

    def identity(self):
        return lstm_option(self.lstm_units)

    def build_model(self) -> keras.Model:
        """Builds a model from `features` to `start_logits` and `end_logits`, float32 [B, S]."""
        inputs = keras_inputs(self.features)
        outputs = self._logits(Encoder(self.config, gradient_checkpointing=self.gradient_checkpointing), inputs)
        return keras.Model(inputs, outputs, name="question_answering")

    def _logits(self, encoder, inputs):
        if self.lstm_units:
            return span_logits(bilstm_on_top(encoder, inputs, 2, self.lstm_units), inputs["input_mask"])
        if self.config.has_pooler:
            encoder.pooler.trainable = False  # unused here
        head = QuestionAnsweringHead.of(self.config)
        with keras.name_scope("cls"):
            head.build((None, None, self.config.hidden_size))
        return head(encoder(inputs)["sequence_output"], inputs["input_mask"])

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        lengths = max_seq_length, self.doc_stride, self.max_query_length
        return encode_squad(tokenizer, examples, *lengths, with_answers=with_targets)

    def example_losses(self, outputs, batch):
        """Computes the mean cross-entropy of start and end over the sequence; position 0 means no answer."""
        both = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(batch[f"{side}_positions"], outputs[f"{side}_logits"])
            for side in ("start", "end")
        ]
        return (both[0] + both[1]) / 2, tf.ones_like(both[0])

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        """Computes the mean over start and end, as in Sanh et al. 2019 (section 3.1)."""
        sides = ("start_logits", "end_logits")
        return tf.add_n([divergence(outputs[side], teacher_outputs[side], temperature) for side in sides]) / 2

    def reduce_outputs(self, outputs, batch):
        """Returns the outputs to keep of each sequence.

        Args:
            batch: with `context_mask`, because segments do not separate question and context in every family.

        Returns:
            {name: tensor}: `score` float32, `start` and `end` int32 (positions of the first and last token in the
            sequence),
            `start_logit` and `end_logit` float32, each [B, n_best_size], of the best spans from `best_spans`;
            `null_start_logit` and `null_end_logit` float32 [B], at [CLS].
        """
        score, start, end = self._spans(outputs, batch["context_mask"] > 0, self.n_best_size)
        logits = {}
        for side, positions in (("start", start), ("end", end)):
            logits[f"{side}_logit"] = tf.gather(outputs[f"{side}_logits"], positions, batch_dims=1)
            logits[f"null_{side}_logit"] = outputs[f"{side}_logits"][:, 0]
        return {"score": score, "start": start, "end": end, **logits}

    def card_limitations(self, max_seq_length):
        limits = [
            f"Questions are truncated to {self.max_query_length} tokens; contexts may have any length.",
            f"An answer is a single span of the context of at most {self.max_answer_length} tokens.",
        ]
        if self.null_score_diff_threshold is None:
            limits.append("It always returns an answer, unless the context is empty.")
        return limits

    def preprocess(self, tokenizer, texts, max_seq_length):
        """Encodes questions and contexts (strings [n] each) with one sequence per window of a context.

        Raises:
            ValueError: max_seq_length leaves no room for the context.
        """
        questions, contexts = texts
        contexts = tf.strings.unicode_transcode(contexts, "UTF-8", "UTF-8", errors="ignore")
        cuts = encode_questions(tokenizer, questions, contexts, max_seq_length, self.doc_stride, self.max_query_length)
        features = pad_sequences(tokenizer, cuts.packed)
        shape = tf.shape(features["input_ids"], tf.int64)
        offsets = [part.to_tensor(-1, shape=shape) for part in (cuts.starts, cuts.ends)]
        return features, AnswerContext(contexts, cuts.windows.rows, *offsets)

    def postprocess(self, outputs, origin=None):
        """Returns the predicted answer to each question, the best span over all its sequences.

        Args:
            outputs: outputs of the model for w sequences.
            origin: the second result of `preprocess`. If None, only ids were sent, and the logits are served unchanged.

        Returns:
            `answer` string [n], context[start:end] except for invalid UTF-8 bytes; `start`, `end` int32 [n], half-open,
            in code points of the context; `score`, `null_score` float32 [n]. If there is no answer, according to the
            threshold or because the context has no word, `answer` is "" and `start` and `end` are 0; without a word,
            `score` is 0 too.
        """
        if origin is None:
            return outputs
        score, start, end = (part[:, 0] for part in self._spans(outputs, origin.starts >= 0, 1))
        best = _best_sequence(score, origin.questions, tf.size(origin.contexts, tf.int64))
        none = tf.math.segment_min(null_score(outputs["start_logits"], outputs["end_logits"]), origin.questions)
        score, start, end = (tf.gather(part, best) for part in (score, start, end))
        start = tf.gather(tf.gather(origin.starts, best), start, batch_dims=1)
        end = tf.gather(tf.gather(origin.ends, best), end, batch_dims=1)
        there = score > float("-inf")
        score = tf.where(there, score, 0.0)
        if self.null_score_diff_threshold is not None:
            there &= none - score <= self.null_score_diff_threshold
        start, end = tf.where(there, start, 0), tf.where(there, end, 0)
        text = tf.strings.substr(origin.contexts, start, end - start, unit="UTF8_CHAR")
        return {"answer": text, "start": start, "end": end, "score": score, "null_score": none}

    def metrics(self, outputs, encoded):
        """Computes `accuracy`: the fraction of sequences whose best span, or [CLS] if higher, is the target."""
        there = outputs["score"][:, 0] > outputs["null_start_logit"] + outputs["null_end_logit"]
        right = [
            np.where(there, outputs[side][:, 0], 0) == encoded.targets[f"{side}_positions"] for side in ("start", "end")
        ]
        return {"accuracy": float(np.mean(right[0] & right[1]))}

    def evaluate(self, outcomes):
        """Computes the official metrics; for SQuAD 2.0, stores the threshold with the best F1 unless one was set."""
        (outcome,) = outcomes
        scores = score_answers(outcome.examples, self.decode(outcome), self.null_score_diff_threshold)
        if "best_f1_thresh" in scores and self.options.null_score_diff_threshold is None:
            self.null_score_diff_threshold = scores["best_f1_thresh"]
        return scores

    def fitted_metrics(self):
        return {"best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"}  # whatever file they are of

    def error_report(self, outcome):
        return question_report(outcome.examples, self.decode(outcome), self.null_score_diff_threshold)

    def decode(self, outcome) -> list[QuestionAnswers]:
        with_null = self.null_score_diff_threshold is not None
        return merge_windows(outcome.encoded.origin, outcome.examples, outcome.outputs, self.n_best_size, with_null)

    def write_answers(self, directory, outcome, answers):
        examples = outcome.examples
        for i, each in enumerate(answers if self.options.verbose_logging else ()):
            best = each.best.text, each.best.score, each.null_score
            logging.info("%s %r: %r, score %.3f; no answer %.3f", examples.ids[i], examples.questions[i], *best)
        write_squad_predictions(directory, examples, answers, self.null_score_diff_threshold)

    def score_answers(self, outcome, answers):
        return score_answers(outcome.examples, answers, self.null_score_diff_threshold)

    def _spans(self, outputs, is_context, k):
        return best_spans(outputs["start_logits"], outputs["end_logits"], is_context, self.max_answer_length, k)


def _best_sequence(score, questions, n):
    """Returns the sequence with the highest score (float32 [w]) for each question, int64 [n]."""
    of_question = tf.RaggedTensor.from_value_rowids(score, questions, n, validate=False)
    return of_question.row_starts() + tf.argmax(at_least_one(of_question.to_tensor(float("-inf"))), axis=1)
