"""Reranking: a cross-encoder scores each document of a query, and its documents are ranked by score."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints.loading import directory_of
from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.evaluation.error_reports.ranking import RankingReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.ranking import METRICS, first_relevant, ranking_metrics
from bert_tf.models.config import EncoderConfig
from bert_tf.models.cross_encoder_files import (
    SCORE_ACTIVATIONS,
    check_reranker_prompts,
    read_activation,
    reranker_length,
)
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.divergences import divergence
from bert_tf.tasks.foreign_models import limit_length, log_shorter_length, names_class
from bert_tf.tasks.ranking_data import check_differences, check_run_files, rank_relevances, read_rankings
from bert_tf.tasks.reranking.losses import LOSS_FUNCTIONS
from bert_tf.tasks.reranking.options import RerankingOptions
from bert_tf.tasks.text_lists import MISSING, encode_served_lists, encode_text_lists
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

_INPUTS = ("query", "documents")
PREDICTIONS = "predictions.jsonl"


class RerankingTask(FineTuningTask):
    """Reranking: an encoder with one logit per document; see `tasks/base.py` for the methods.

    Query and document form one sequence. Its logit is a `ClassificationHead` with one output, as in the CrossEncoder of
    sentence-transformers. The number of documents may vary.

    Args:
        config: configuration of the encoder.
        loss: a key of `LOSS_FUNCTIONS`.
        activation: activation of served scores, "sigmoid" or "identity", which leaves the logits as they are. If None,
            "sigmoid" for binary cross-entropy, whose scores are probabilities, otherwise "identity".
        gradient_checkpointing: as in `Encoder`.
        every_window: as in `models/windows.py`: whether the model will be compiled with XLA.

    Raises:
        ValueError: the activation is unknown.
    """

    name = "reranking"
    options = RerankingOptions()
    files = (PREDICTIONS,)
    features = ENCODER_INPUTS
    targets = ("relevances",)
    head = ("classifier/.*",)
    uses_pooler = has_windows = True
    architecture = "ForSequenceClassification"
    list_inputs = ("documents",)
    reads_whole_texts = False
    metric_names = METRICS

    def __init__(
        self,
        config: EncoderConfig,
        loss: str = "binary_cross_entropy",
        activation: str | None = None,
        gradient_checkpointing: bool = False,
        every_window: bool = False,
    ):
        self.config, self.loss_name, self._loss = config, loss, LOSS_FUNCTIONS[loss]
        self.activation = activation or ("sigmoid" if loss == "binary_cross_entropy" else "identity")
        if self.activation not in SCORE_ACTIVATIONS:
            raise ValueError(f"`activation` must be {' or '.join(SCORE_ACTIVATIONS)}; got {activation!r}.")
        self.gradient_checkpointing, self.every_window = gradient_checkpointing, every_window

    @classmethod
    def with_trained_defaults(cls, options, trained):
        return dataclasses.replace(super().with_trained_defaults(options, trained), loss=trained.task.loss_name)

    @classmethod
    def with_foreign_defaults(cls, options, model):
        longest = limit_length(_stated_length(options), model.config)
        return dataclasses.replace(options, max_seq_length=longest)

    @classmethod
    def from_pretrained(cls, directory, model):
        """Returns a reranker if the files are those of a CrossEncoder with one output."""
        if not has_one_score(model):
            return None
        activation = read_activation(directory, model.config.extra)
        if activation is None:
            return None
        longest = limit_length(reranker_length(directory), model.config)
        return TrainedTask(cls(model.config, activation=activation), _INPUTS, longest)

    @classmethod
    def read_data(cls, options, kinds, trained):
        examples = {kind: read_rankings(options, kind) for kind in kinds}
        check_run_files(options, examples.values())
        if "train" in examples:
            check_differences(examples["train"])
        return TaskData(examples, _INPUTS)

    @classmethod
    def checked_examples(cls, examples, data, options):
        """Returns the data to check: queries with their documents."""
        texts = {"query": examples.queries, "documents": list(map("\n".join, examples.documents))}
        return CheckedExamples(examples.path, examples.where, texts, None, dialect=options.dialect)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        of_run = {"gradient_checkpointing": options.gradient_checkpointing, "every_window": use_xla}
        if options.do_train:
            if options.init_checkpoint:
                check_reranker_prompts(directory_of(options.init_checkpoint))
            log_shorter_length(options, _stated_length(options), model.config)
            return cls(model.config, options.loss, **of_run)
        if before is None:  # trained with other software
            directory = directory_of(options.init_checkpoint) if options.init_checkpoint else ""
            activation = read_activation(directory, model.config.extra) or "sigmoid"
            return cls(model.config, options.loss, activation, **of_run)
        if options.loss != before.task.loss_name:
            raise ValueError(
                f"`loss` must match the trained model's, {before.task.loss_name}; got {options.loss}; omit it."
            )
        return cls(model.config, **before.task.to_dict(), **of_run)

    def to_dict(self):
        return {"loss": self.loss_name, "activation": self.activation}

    def build_model(self) -> keras.Model:
        """Builds a model from `features`, int32 [B, N, S], to the documents' logits, float32 [B, N]."""
        inputs, c = keras_inputs(self.features, windows=True), self.config
        sequences = TakeWindows(self.every_window, name="take_documents")(inputs)
        outputs = Encoder(c, gradient_checkpointing=self.gradient_checkpointing)(sequences)
        head = ClassificationHead.of(c, 1)
        logits = head(outputs["pooled_output"])
        together = RowsTogether(self.every_window, MISSING, name="documents")(logits, inputs["input_mask"])
        return keras.Model(inputs, keras.ops.squeeze(together, -1), name="reranking")

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        encoded = encode_text_lists(tokenizer, examples.queries, examples.documents, max_seq_length, examples.path)
        targets = {}
        if with_targets:
            gains = np.zeros([len(examples), max(map(len, examples.documents))], np.float32)
            for row, relevances in zip(gains, examples.relevances, strict=True):
                row[: len(relevances)] = np.maximum(relevances, 0)
            targets = {"relevances": gains}
        return dataclasses.replace(encoded, targets=targets, origin=examples)

    def example_losses(self, outputs, batch):
        # The batch's lists may be shorter than the file's longest one, and its sequences are rounded up.
        relevances = batch["relevances"]
        width = tf.minimum(tf.shape(outputs)[1], tf.shape(relevances)[1])
        logits = outputs[:, :width]
        losses = self._loss(logits, relevances[:, :width], logits > MISSING / 2)
        return losses, tf.ones_like(losses)

    def distillation_losses(self, outputs, teacher_outputs, batch, temperature):
        return divergence(outputs, teacher_outputs, temperature)

    def metrics(self, outputs, encoded):
        examples = encoded.origin
        return ranking_metrics(rank_relevances(_logits(outputs, examples), examples), examples.judged)

    def error_report(self, outcome):
        read = outcome.examples
        shown = DisplayedExamples(
            read.path, read.ids, read.lines, {"query": read.queries}, outcome.encoded.lengths,
            "tokens of all documents",
        )  # fmt: skip
        ranked = rank_relevances(_logits(outcome.outputs, read), read)
        return RankingReport(examples=shown, ranks=np.array(list(map(first_relevant, ranked))))

    def decode(self, outcome) -> list[np.ndarray]:
        return _logits(outcome.outputs, outcome.examples)

    def write_answers(self, directory, outcome, answers):
        """Writes predictions.jsonl: `id`, `query`, `documents`, and the fields of the served prediction."""
        examples = outcome.examples
        with atomic_open(os.path.join(directory, PREDICTIONS)) as file:
            for n, logits in enumerate(answers):
                served = self.postprocess(tf.constant(logits[None]))
                served = {name: values.numpy()[0] for name, values in served.items()}
                line = {"id": examples.ids[n], "query": examples.queries[n], "documents": examples.documents[n]}
                # str gives a float32 as many digits as it needs; tolist alone would show those of its double.
                line |= {"scores": served["scores"].astype(str).astype(np.float64).tolist()}
                line |= {"order": served["order"].tolist()}
                file.write(json_text(line, ensure_ascii=False) + "\n")

    def card_limitations(self, max_seq_length):
        return [f"A query and a document together are truncated to {max_seq_length} tokens, including special tokens."]

    def preprocess(self, tokenizer, texts: Sequence[tf.Tensor], max_seq_length: int):
        queries, documents = texts
        return encode_served_lists(tokenizer, queries, documents, max_seq_length), tf.shape(documents)[1]

    def postprocess(self, outputs, origin=None):
        """Returns the scores of each query's documents, and their order.

        Args:
            outputs: logits float32 [n, k].
            origin: the second result of `preprocess`: the number of documents, 0 where the outputs have 1 column.

        Returns:
            `scores` float32 [n, k], 0 for missing documents; `order` int32 [n, k], the indices of the documents, the
            best first, of equal ones the first, and then -1 for each missing document.
        """
        if origin is not None:
            outputs = outputs[:, :origin]
        there = outputs > MISSING / 2
        scores = tf.sigmoid(outputs) if self.activation == "sigmoid" else outputs
        order = tf.argsort(outputs, direction="DESCENDING", stable=True)
        return {
            "scores": tf.where(there, scores, 0.0),
            "order": tf.where(tf.gather(there, order, batch_dims=1), order, -1),
        }


def has_one_score(model: Any) -> bool:
    """Returns whether a `loading.ModelDescription` is that of a text classifier of Transformers with one output."""
    number = model.config.extra.get("num_labels", 2) if model.labels is None else len(model.labels)
    return number == 1 and names_class(model.config, RerankingTask.architecture)


def _stated_length(options):
    """Returns the maximum sequence length in the files of the initial model, or None."""
    return reranker_length(directory_of(options.init_checkpoint)) if options.init_checkpoint else None


def _logits(outputs, examples):
    """Returns the logits of each query's documents, without those of padding."""
    return [row[: len(documents)] for row, documents in zip(outputs, examples.documents, strict=True)]
