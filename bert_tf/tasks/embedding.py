"""Sentence embeddings, trained on pairs (Reimers and Gurevych 2019)."""

import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.dataset import Tokenized, count_truncated
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs, splits_of
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.error_reports.common import Shown
from bert_tf.evaluation.error_reports.values import RegressionReport, RetrievalReport
from bert_tf.evaluation.metrics import cosines, mean_loss, ranks, regression, retrieval
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import task_in
from bert_tf.models.encoder import Encoder
from bert_tf.models.pooling import PooledFeatures, check_layers, check_pooling
from bert_tf.models.sentence_files import PoolingConfig, read_recipe
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks import options
from bert_tf.tasks.base import FineTuningTask, TrainedTask
from bert_tf.tasks.embedding_data import (
    LOSS_FUNCTIONS,
    LossParameters,
    TextGroups,
    embedding_samples,
    evaluates_by_score,
    read_embedding_data,
)
from bert_tf.tasks.labels import single_rows
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Files ===
# Vectors, or the cosines of pairs, as a file.


FILE = "predictions.jsonl"


def write_embeddings(directory: str, groups: TextGroups, vectors: np.ndarray):
    """Writes a line for each example, in order: `id`, `text` and `embedding`; of a pair `text_a`, `text_b`, `cosine`.

    Args:
        directory: where it goes.
        groups: n texts or pairs.
        vectors: float32 [n, k, D] of their k texts.
    """
    names = ("text",) if len(groups.texts) == 1 else ("text_a", "text_b")
    answers = vectors[:, 0] if len(names) == 1 else cosines(vectors[:, 0], vectors[:, 1])
    with atomic_open(os.path.join(directory, FILE)) as file:
        for name, *texts, answer in zip(groups.ids, *groups.texts, answers, strict=True):
            key = "embedding" if answer.ndim else "cosine"
            line = {"id": name, **dict(zip(names, texts, strict=True)), key: answer.tolist()}
            file.write(json_text(line, ensure_ascii=False) + "\n")


# === Rows ===
# Texts that belong together, laid out as the rows of one example.


_CHUNK = 10_000  # texts tokenized at a time: few enough to keep memory small


def group_rows(
    tokenizer, texts: tuple[list[str], ...], max_seq_length: int, targets: Mapping[str, np.ndarray], path: str
) -> Windowed:
    """Returns n examples of k rows each: [CLS] text [SEP].

    Args:
        tokenizer: a `Tokenizer`.
        texts: k lists of n texts.
        max_seq_length: longest row; what is longer loses its end.
        targets: {name: [n]}.
        path: of the file, for the log.
    """
    ordered, parts, wanted = [text for group in zip(*texts, strict=True) for text in group], [], []
    for start in range(0, len(ordered), _CHUNK):
        ids = tokenizer.tokenize(ordered[start : start + _CHUNK])
        wanted.append(ids.row_lengths().numpy() + tokenizer.template.special(1))
        parts.append(tokenizer.pack(ids, max_seq_length=max_seq_length))
    lengths = np.concatenate([part["input_ids"].row_lengths().numpy() for part in parts])
    flat = {n: np.concatenate([p[n].flat_values.numpy() for p in parts]) for n in ("input_ids", "segment_ids")}
    cut = count_truncated(np.concatenate(wanted), max_seq_length, np.arange(len(ordered)) // len(texts), len(texts[0]))
    logging.info(
        "%s: %d examples of %d texts, %.1f pieces a text; %d do not fit max_seq_length=%d and were cut.",
        *(path, len(texts[0]), len(texts), lengths.mean(), len(cut.examples), max_seq_length),
    )
    rows = Tokenized(flat, splits_of(lengths), {}, tokenizer.pad_id)
    return Windowed(rows, np.arange(0, len(ordered) + 1, len(texts)), dict(targets), cut=cut)


# === Task ===
# Vectors of texts, trained on texts that belong together (Reimers and Gurevych 2019): one encoder reads each alone.


_TARGET = "label_values"
_TOGETHER = "word pieces, all texts together"


class EmbeddingTask(FineTuningTask):
    """The encoder and a pooling of its layers; see `tasks/base.py` for what the methods mean.

    Args:
        config: of the encoder.
        layers: whose features are pooled, one of `names.LAYERS`; a weighted sum is the mean here.
        poolings: of `names.POOLINGS`; several stand side by side.
        normalize: divide what is served by its length; losses and scores are of cosines in any case.
        loss: a key of `losses.LOSSES`.
        loss_temperature, loss_margin: of the losses that have one.
        by_score: hold cosines against scores in evaluations; False: count how often texts find each other; None: what
            the loss reads.
        rematerialize: as in `Encoder`.
        every_row: as `every` in `models/windows.py`: the model is to be trained or asked with XLA.

    Raises:
        ValueError: there is no such choice of layers, or pooling, or its vectors would say nothing of a text.
    """

    name = "embedding"
    flags = options.EMBEDDING_FLAGS
    files = (FILE,)
    features = ENCODER_INPUTS
    head = ()

    def __init__(
        self,
        config: EncoderConfig,
        layers: str = "last",
        poolings: tuple[str, ...] = ("mean",),
        normalize: bool = False,
        loss: str = "in_batch_negatives",
        loss_temperature: float = 0.05,
        loss_margin: float = 0.5,
        by_score: bool | None = None,
        rematerialize: bool = False,
        every_row: bool = False,
    ):
        check_layers(layers, config.num_hidden_layers)
        check_pooling(tuple(poolings), config.is_decoder)
        self.config, self.loss_name = config, loss
        self.recipe = PoolingConfig(layers, tuple(poolings), bool(normalize))
        self._loss, self._numbers = LOSS_FUNCTIONS[loss], LossParameters(float(loss_temperature), float(loss_margin))
        self._by_score = self._loss.scores if by_score is None else by_score
        self.metric_names = ("spearman", "pearson") if self._by_score else ("recall_at_1", "recall_at_10", "mrr")
        self.rematerialize, self._every_row = rematerialize, every_row

    @classmethod
    def adopted(cls, settings, trained):
        task, of = trained.task, trained.task.recipe
        recipe = {"layers": of.layers, "pooling": list(of.poolings), "normalize": of.normalize}
        if wrong := [name for name, value in recipe.items() if settings.where_given(name) not in (None, value)]:
            raise ValueError(
                f"`{wrong[0]}` must be what the model was trained with, {recipe[wrong[0]]}. Received: "
                f"{settings.get(wrong[0])}; leave it out."
            )
        return super().adopted(settings, trained).adopt({**recipe, "loss": task.loss_name})

    @classmethod
    def read_data(cls, settings, kinds, trained):
        return read_embedding_data(settings, kinds)

    @classmethod
    def samples(cls, data, settings):
        return embedding_samples(data, settings)

    @classmethod
    def create(cls, model, data, settings, before, use_xla=False):
        options = {"by_score": evaluates_by_score(settings), "rematerialize": settings.rematerialize}
        options |= {"every_row": use_xla}
        if before and not settings.do_train:
            return cls(model.config, **before.task.to_dict() | options)
        _check_freezing(settings)
        start = _recipe_in(settings.init_checkpoint, model.tokenizer)
        return cls(
            model.config,
            settings.layers or start.layers,
            settings.pooling or start.poolings,
            start.normalize if settings.normalize is None else settings.normalize,
            settings.loss,
            settings.temperature,
            settings.margin,
            **options,
        )

    @classmethod
    def recognize(cls, directory, model):
        recipe = read_recipe(directory)
        if recipe is None:
            return None
        _check_recipe("model", directory, recipe, model.tokenizer)
        longest = min(recipe.max_seq_length or model.config.max_length, model.config.max_length)
        task = cls(model.config, recipe.layers, recipe.poolings, recipe.normalize)
        return TrainedTask(task, ("text",), longest)

    @property
    def targets(self):
        return () if self._loss.of_batch else (_TARGET,)

    def to_dict(self):
        recipe, numbers = self.recipe, self._numbers
        return {
            **{"layers": recipe.layers, "poolings": list(recipe.poolings), "normalize": recipe.normalize},
            **{"loss": self.loss_name, "loss_temperature": numbers.temperature, "loss_margin": numbers.margin},
        }

    def identity(self):
        return self.to_dict()

    def build_model(self) -> keras.Model:
        """Returns a model from `features`, int32 [B, N, S], to the vectors of N texts, float32 [B, N, D]."""
        inputs = keras_inputs(self.features, windows=True)
        rows = TakeWindows(self._every_row, name="take_rows")(inputs)
        encoder = Encoder(self.config, rematerialize=self.rematerialize)
        for part in _unused(encoder, self.recipe.layers):
            part.trainable = False
        vectors = self._pooled(encoder(rows), rows)
        together = RowsTogether(self._every_row, name="rows_together")(vectors, inputs["input_mask"])
        return keras.Model(inputs, together, name="embedding")

    def for_serving(self, model):
        """Returns the model of one text: int32 [B, S] to float32 [B, D]."""
        inputs = keras_inputs(self.features)
        encoder = next(layer for layer in model.layers if isinstance(layer, Encoder))
        return keras.Model(inputs, self._pooled(encoder(inputs), inputs), name="one_text")

    def _pooled(self, outputs, rows):
        recipe = self.recipe
        pooled = PooledFeatures(recipe.layers, recipe.poolings, recipe.normalize, name="pooled_features")
        return pooled(outputs, rows["input_mask"])

    def lay_out(self, tokenizer, examples, max_seq_length, with_targets):
        scores, targets = examples.scores, {}
        if scores is None and not self._loss.scores:  # a target that says: these are texts to learn from
            scores = np.ones(len(examples))
        if with_targets and scores is not None:
            targets = {_TARGET: np.asarray(scores, np.float32)}
        return group_rows(tokenizer, examples.texts, max_seq_length, targets, examples.path)

    def loss(self, outputs, batch, denominators):
        losses = self._losses(outputs, batch) * batch["is_real_example"]
        return tf.reduce_sum(losses) / denominators["examples"]

    def example_losses(self, outputs, batch):
        """Returns None where an example's loss depends on its batch, and so on the size of batches."""
        if self._loss.of_batch:
            return None
        losses = self._losses(outputs, batch)
        return losses, tf.ones_like(losses)

    def _losses(self, outputs, batch):
        return self._loss.compute(tf.math.l2_normalize(outputs, -1), batch, self._numbers)

    def metrics(self, outputs, rows):
        if self._by_score:
            return regression(rows.targets[_TARGET], cosines(outputs[:, 0], outputs[:, 1]), self.metric_names)
        return retrieval(self._places(outputs))

    def _places(self, outputs):
        return ranks(outputs[:, 0], np.concatenate(outputs[:, 1:].transpose(1, 0, 2)))

    def evaluate(self, outcomes, settings):
        (outcome,) = outcomes
        loss = {} if outcome.losses is None else {"loss": mean_loss(outcome.losses)}
        return self.metrics(outcome.outputs, outcome.rows) | loss

    def judged(self, outcome, settings):
        groups, outputs = outcome.examples, outcome.outputs
        texts = {f"text_{letter}": each for letter, each in zip("abc", groups.texts, strict=False)}
        examples = Shown(groups.path, groups.ids, groups.lines, texts, outcome.rows.lengths, _TOGETHER)
        if not self._by_score:
            return RetrievalReport(examples=examples, places=self._places(outputs))
        given = cosines(outputs[:, 0], outputs[:, 1])
        return RegressionReport(examples=examples, gold=outcome.rows.targets[_TARGET], given=given, given_name="cosine",
                      is_same_scale=False)  # fmt: skip

    def decode(self, outcome):
        return outcome.outputs

    def write_answers(self, directory, outcome, answers, settings):
        write_embeddings(directory, outcome.examples, answers)

    @property
    def reads_whole_texts(self):
        return False

    def read(self, tokenizer, texts, max_seq_length):
        return single_rows(tokenizer, texts, max_seq_length), None

    def answer(self, outputs, origin=None):
        return {"embedding": outputs}


def _check_freezing(settings):
    """Raises ValueError where nothing would be trained."""
    if settings.do_train and settings.freeze_layers == "all":
        raise ValueError(
            "`freeze_layers=all` must come with a head to train. Received it for vectors, which have none; freeze "
            "fewer layers."
        )


def _recipe_in(path, tokenizer) -> PoolingConfig:
    """Returns how the model that training starts from makes its vectors.

    Raises:
        ValueError: it does so in a way that cannot be trained here.
    """
    if not path:
        return PoolingConfig()
    directory = path if os.path.isdir(path) else os.path.dirname(path)
    recipe = read_recipe(directory)
    if recipe is None:
        of_task = task_in(directory) or {}
        ours = {"layers", "poolings", "normalize"} <= of_task.keys()
        return (
            PoolingConfig(of_task["layers"], tuple(of_task["poolings"]), of_task["normalize"])
            if ours
            else PoolingConfig()
        )
    _check_recipe("init_checkpoint", directory, recipe, tokenizer)
    return recipe


def _check_recipe(name, directory, recipe, tokenizer):
    """Raises ValueError where a vector is more than a pooling of the encoder's layers; `name`: of the parameter."""
    if recipe.steps or recipe.lower and not tokenizer.do_lower_case:
        what = "maps its vectors by Dense modules" if recipe.steps else "lowercases before its tokenizer"
        raise ValueError(
            f"`{name}` must be a model of an encoder, its tokenizer and a pooling. Received {directory}, which {what}; "
            "name another, or its folder of the encoder alone."
        )
    if recipe.default_prompt:
        logging.warning("%s has a default prompt, which is not put before the texts here.", directory)


def _unused(encoder, layers):
    """Yields the parts of the encoder that a choice of layers does not read: nothing would move them."""
    if encoder.pooler:
        yield encoder.pooler
    config = encoder.config
    depth = {"embeddings": 0, "second_to_last": config.num_hidden_layers - 1}.get(layers, config.num_hidden_layers)
    read = {n * config.num_blocks // config.num_hidden_layers for n in range(depth)}
    yield from (block for n, block in enumerate(encoder.blocks) if n not in read)
