"""Sentence embeddings, trained on text pairs (Reimers and Gurevych 2019)."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data import glue, tables
from bert_tf.data.columns import number
from bert_tf.data.dataset import count_truncated
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.lint_sample import LintSample, TableLayout
from bert_tf.data.tables import LabeledTexts
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.error_reports.common import Shown
from bert_tf.evaluation.error_reports.values import RegressionReport, RetrievalReport
from bert_tf.evaluation.metrics import cosines, mean_loss, ranks, regression, retrieval
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import task_in
from bert_tf.models.encoder import Encoder
from bert_tf.models.pooling import PooledFeatures, check_layers, check_pooling
from bert_tf.models.sentence_transformers_files import PoolingConfig, read_recipe
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.options import ACTIONS, EmbeddingOptions
from bert_tf.tasks.sequences import encode_served_texts, pack_sequences
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

# === Losses ===
# Losses on pairs, by name; all are based on cosine similarities.


_NEVER = -1e30  # a logit whose exponential is 0


@dataclasses.dataclass(frozen=True)
class LossParameters:
    """The temperature of in-batch negatives, and the margin of contrastive and triplet loss."""

    temperature: float
    margin: float


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss function for sentence embeddings.

    Attributes:
        compute: embeddings float32 [B, N, D] of length 1, the batch, `LossParameters` -> the loss of each example,
            float32 [B].
        texts: allowed numbers of texts per example.
        scores: whether it uses the pair's score, `label_values`.
        binary: whether the score must be 0 or 1.
        of_batch: whether an example's loss depends on the others in its batch.
    """

    compute: Callable[[tf.Tensor, Mapping[str, tf.Tensor], LossParameters], tf.Tensor]
    texts: tuple[int, ...] = (2,)
    scores: bool = False
    binary: bool = False
    of_batch: bool = False


def _in_batch_negatives(vectors, batch, numbers):
    """Computes the cross-entropy of finding the matching text among all second and third texts of the batch.

    Filler examples are not candidates, nor are texts identical to the matching one.
    """
    count, others = tf.shape(vectors)[0], tf.shape(vectors)[1] - 1
    ids = batch["input_ids"]
    candidates = tf.reshape(tf.transpose(vectors[:, 1:], [1, 0, 2]), [others * count, vectors.shape[-1]])
    candidate_ids = tf.reshape(tf.transpose(ids[:, 1:], [1, 0, 2]), [others * count, -1])
    logits = tf.matmul(vectors[:, 0], candidates, transpose_b=True) / numbers.temperature
    same = tf.reduce_all(ids[:, 1, tf.newaxis] == candidate_ids[tf.newaxis], -1)
    own = tf.eye(count, others * count, dtype=tf.bool)
    real = tf.tile(batch["is_real_example"] > 0, [others])[tf.newaxis]
    logits = tf.where(own | (real & ~same), logits, _NEVER)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(count), logits)


def _cosine(vectors, batch, numbers):
    """Computes the squared difference between cosine and score."""
    return tf.square(_cosines(vectors, 1) - batch["label_values"])


def _contrastive(vectors, batch, numbers):
    """Computes the contrastive loss (Hadsell et al. 2006, equation 4) on 1 - cosine; a score of 1 is a similar pair."""
    distance, similar = 1 - _cosines(vectors, 1), batch["label_values"]
    apart = tf.square(tf.nn.relu(numbers.margin - distance))
    return 0.5 * (similar * tf.square(distance) + (1 - similar) * apart)


def _triplet(vectors, batch, numbers):
    """Computes the triplet loss: by how much the third text is less than `margin` farther away than the second."""
    return tf.nn.relu(_cosines(vectors, 2) - _cosines(vectors, 1) + numbers.margin)


def _cosines(vectors, n):
    return tf.reduce_sum(vectors[:, 0] * vectors[:, n], -1)


LOSS_FUNCTIONS = {
    "in_batch_negatives": Loss(_in_batch_negatives, texts=(2, 3), of_batch=True),
    "cosine": Loss(_cosine, scores=True),
    "contrastive": Loss(_contrastive, scores=True, binary=True),
    "triplet": Loss(_triplet, texts=(3,)),
}


# === Data ===
# Matching texts, with a score if it is used, from the files of a run.


def evaluates_by_score(options: EmbeddingOptions) -> bool:
    """Returns whether evaluation correlates cosines with scores; otherwise it measures retrieval of matching texts."""
    return LOSS_FUNCTIONS[options.loss].scores if options.eval_by == "auto" else options.eval_by == "spearman"


def _check(options, kinds):
    files = [path for path in options.files.values() if path]
    if options.task_name and files:
        raise ValueError(
            f"`task_name` and files cannot be combined. Received `task_name={options.task_name}` and {files}; remove "
            "one."
        )
    if bool(options.task_name) != bool(options.data_dir):
        given = "task_name" if options.task_name else "data_dir"
        raise ValueError(f"`task_name` and `data_dir` must be used together. Received `{given}` alone.")
    of_files = [name for name in ("separator", "encoding", "drop_empty") if getattr(options, name)]
    if options.task_name and of_files:
        raise ValueError(
            f"`task_name` cannot be combined with `{of_files[0]}`, which is for your own files. Remove one."
        )
    columns = options.text_column
    for kind, numbers, what in (
        ("train", LOSS_FUNCTIONS[options.loss].texts, f"`loss={options.loss}`"),
        ("dev", (2, 3), "`do_eval`"),
        ("final", (2, 3), "`test_file`"),
        ("test", (1, 2), "`do_predict`"),
    ):
        if kind in kinds and len(columns) not in numbers:
            raise ValueError(
                f"`text_column` must name {' or '.join(map(str, numbers))} columns for {what}. Received "
                f"{len(columns)}: {','.join(columns)}."
            )


def _read_glue(options, kind, with_scores):
    task = glue.find_glue_task(options.task_name)
    if task.scale is None:
        raise ValueError(f"`task_name` must be a GLUE task with pair scores. Received: {task.name}.")
    table = glue.read_split(options.data_dir, task.name, kind)
    return _with_scores(table, options.highest_score or task.scale[1], with_scores)


def _read_file(options, kind, with_scores):
    action, path, columns = ACTIONS[kind], options.files[kind], options.text_column
    if not path:
        raise ValueError(
            f"`do_{action}` requires texts. Pass `{action}_file`, or `task_name` with `data_dir`."
        )
    more = {"header": options.header, "skip_bad_rows": options.skip_bad_rows, "dialect": options.dialect}
    more["drop_empty"] = options.drop_empty and kind != "test"
    highest, labels = options.highest_score or 1.0, {}
    if with_scores:
        labels = {"label_column": options.label_column, "label": number(-highest, highest)}
        labels["remedy"] = "check `label_column`, which holds the scores, `text_column` and `highest_score`"
    table = tables.read_table(path, text_columns=columns[:2], **more, **labels)
    if len(columns) == 3:
        table = _with_third_text(table, tables.read_table(path, text_columns=columns[2:], **more))
    return _with_scores(table, highest, with_scores)


def _with_third_text(pairs, third):
    """Joins two tables of one file: the pairs whose line also has a third text, with that text."""
    third_of = dict(zip(third.lines, third.text_a, strict=True))
    kept = [i for i, line in enumerate(pairs.lines) if line in third_of]
    lists = {name: [getattr(pairs, name)[i] for i in kept] for name in ("ids", "text_a", "text_b", "lines")}
    labels = pairs.labels and [pairs.labels[i] for i in kept]
    bad_texts = dict(sorted({**third.bad_texts, **pairs.bad_texts}.items()))
    text_c = [third_of[line] for line in lists["lines"]]
    return dataclasses.replace(pairs, **lists, labels=labels, bad_texts=bad_texts, text_c=text_c)


def _with_scores(examples, highest, with_scores):
    """Returns the examples with labels scaled to at most 1, or without labels."""
    scores = [score / highest for score in examples.labels] if with_scores else None
    return dataclasses.replace(examples, labels=scores)


def _check_binary(examples, loss):
    wrong = next((n for n, score in enumerate(examples.labels) if score not in (0, 1)), None)
    if wrong is not None:
        raise ValueError(
            f"{examples.where(wrong)}: the score must be 0 or `highest_score` for `loss={loss}`. Received: "
            f"{examples.labels[wrong]:g} of it; correct this line, or use another `loss`."
        )


# === Files ===
# Output file of embeddings, or of the cosines of pairs.


FILE = "predictions.jsonl"


def write_embeddings(directory: str, examples: LabeledTexts, vectors: np.ndarray):
    """Writes one line per example, in order: `id`, `text`, `embedding`; for pairs `text_a`, `text_b`, `cosine`.

    Args:
        directory: output directory.
        examples: n texts or pairs.
        vectors: float32 [n, k, D], the embeddings of their k texts.
    """
    is_pair = examples.text_b is not None
    answers = cosines(vectors[:, 0], vectors[:, 1]) if is_pair else vectors[:, 0]
    with atomic_open(os.path.join(directory, FILE)) as file:
        for name, *texts, answer in zip(examples.ids, *examples.texts.values(), answers, strict=True):
            texts = dict(zip(examples.texts, texts, strict=True))
            line = {"id": name, **texts, "cosine" if is_pair else "embedding": answer.tolist()}
            file.write(json_text(line, ensure_ascii=False) + "\n")


# === Encoding ===
# Encodes matching texts as the sequences of one example.


_CHUNK = 10_000  # texts tokenized at a time: few enough to keep memory small


def encode_text_groups(
    tokenizer, texts: Sequence[list[str]], max_seq_length: int, targets: Mapping[str, np.ndarray], path: str
) -> Windowed:
    """Encodes n examples with k sequences each: [CLS] text [SEP].

    Args:
        tokenizer: a `Tokenizer`.
        texts: k lists of n texts.
        max_seq_length: maximum sequence length; longer texts are truncated.
        targets: {name: [n]}.
        path: path of the file, for the log.
    """
    ordered = [text for group in zip(*texts, strict=True) for text in group]
    starts = range(0, len(ordered), _CHUNK)
    tokens = ([tokenizer.tokenize(ordered[start : start + _CHUNK])] for start in starts)
    sequences, needed = pack_sequences(tokenizer, tokens, max_seq_length)
    cut = count_truncated(needed, max_seq_length, np.arange(len(ordered)) // len(texts), len(texts[0]))
    logging.info(
        "%s: %d examples of %d texts, %.1f tokens per text; %d exceed max_seq_length=%d and were truncated.",
        *(path, len(texts[0]), len(texts), sequences.lengths.mean(), len(cut.examples), max_seq_length),
    )
    return Windowed(sequences, np.arange(0, len(ordered) + 1, len(texts)), dict(targets), truncation=cut)


# === Task ===
# A bi-encoder trained on matching texts (Reimers and Gurevych 2019), which encodes each text separately.


_TARGET = "label_values"
_TOGETHER = "tokens of all texts"


class EmbeddingTask(FineTuningTask):
    """Sentence embeddings: an encoder with pooling; see `tasks/base.py` for the methods.

    Args:
        config: configuration of the encoder.
        layers: the layers that are pooled, one of `names.LAYERS`; a weighted sum is the mean here.
        poolings: some of `names.POOLINGS`; several are concatenated.
        normalize: whether to divide served embeddings by their length; losses and metrics always use cosines.
        loss: a key of `LOSS_FUNCTIONS`.
        loss_temperature, loss_margin: parameters of the losses that have them.
        by_score: whether evaluations correlate cosines with scores, rather than measure retrieval. If None, this
            follows the loss.
        rematerialize: as in `Encoder`.
        every_row: as `every` in `models/windows.py`: whether the model will be compiled with XLA.

    Raises:
        ValueError: the layers or the pooling are unknown, or not supported by the model.
    """

    name = "embedding"
    options = EmbeddingOptions()
    files = (FILE,)
    reads_whole_texts = False
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
    def with_trained_defaults(cls, options, trained):
        recipe = trained.task.recipe
        options = super().with_trained_defaults(options, trained)
        kept = dataclasses.replace(
            options,
            layers=recipe.layers,
            pooling=list(recipe.poolings),
            normalize=recipe.normalize,
            loss=trained.task.loss_name,
        )
        for name, given, value in (
            ("layers", options.layers, kept.layers),
            ("pooling", options.pooling, kept.pooling),
            ("normalize", options.normalize, kept.normalize),
        ):
            if given not in (None, value):
                raise ValueError(
                    f"`{name}` must match the trained model's, {value}. Received: {given}; omit it."
                )
        return kept

    @classmethod
    def read_data(cls, options, kinds, trained):
        _check(options, kinds)
        read, loss = _read_glue if options.task_name else _read_file, LOSS_FUNCTIONS[options.loss]
        by_score = evaluates_by_score(options)
        scores = {"train": loss.scores, "dev": by_score, "final": by_score, "test": False}
        examples = {kind: read(options, kind, scores[kind]) for kind in kinds}
        if "train" in examples and loss.binary:
            _check_binary(examples["train"], options.loss)
        return TaskData(examples)

    @classmethod
    def lint_sample(cls, examples, data, options):
        table = None if options.task_name else TableLayout(options.header, options.text_column, options.label_column)
        bad = {"bad_labels": examples.bad_labels, "bad_texts": examples.bad_texts}
        texts, scores = examples.texts, examples.labels
        bad |= {"dialect": options.dialect}
        return LintSample(examples.path, examples.where, texts, scores, target="score", table=table, **bad)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        of_run = {"by_score": evaluates_by_score(options), "rematerialize": options.rematerialize, "every_row": use_xla}
        if before and not options.do_train:
            return cls(model.config, **before.task.to_dict() | of_run)
        _check_freezing(options)
        start = _recipe_in(options.init_checkpoint, model.tokenizer)
        return cls(
            model.config,
            options.layers or start.layers,
            options.pooling or start.poolings,
            start.normalize if options.normalize is None else options.normalize,
            options.loss,
            options.temperature,
            options.margin,
            **of_run,
        )

    @classmethod
    def from_foreign_model(cls, directory, model):
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
        """Builds a model from `features`, int32 [B, N, S], to the embeddings of N texts, float32 [B, N, D]."""
        inputs = keras_inputs(self.features, windows=True)
        sequences = TakeWindows(self._every_row, name="take_rows")(inputs)
        encoder = Encoder(self.config, rematerialize=self.rematerialize)
        for part in _unused(encoder, self.recipe.layers):
            part.trainable = False
        vectors = self._pooled(encoder(sequences), sequences)
        together = RowsTogether(self._every_row, name="rows_together")(vectors, inputs["input_mask"])
        return keras.Model(inputs, together, name="embedding")

    def for_serving(self, model):
        """Returns the model for a single text: int32 [B, S] to float32 [B, D]."""
        inputs = keras_inputs(self.features)
        encoder = next(layer for layer in model.layers if isinstance(layer, Encoder))
        return keras.Model(inputs, self._pooled(encoder(inputs), inputs), name="one_text")

    def _pooled(self, outputs, sequences):
        recipe = self.recipe
        pooled = PooledFeatures(recipe.layers, recipe.poolings, recipe.normalize, name="pooled_features")
        return pooled(outputs, sequences["input_mask"])

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        scores, targets = examples.labels, {}
        if scores is None and not self._loss.scores:  # a target that says: these are texts to learn from
            scores = np.ones(len(examples))
        if with_targets and scores is not None:
            targets = {_TARGET: np.asarray(scores, np.float32)}
        return encode_text_groups(tokenizer, [*examples.texts.values()], max_seq_length, targets, examples.path)

    def loss(self, outputs, batch, normalizers):
        losses = self._losses(outputs, batch) * batch["is_real_example"]
        return tf.reduce_sum(losses) / normalizers["examples"]

    def example_losses(self, outputs, batch):
        """Returns None if an example's loss depends on its batch, and thus on the batch size."""
        if self._loss.of_batch:
            return None
        losses = self._losses(outputs, batch)
        return losses, tf.ones_like(losses)

    def _losses(self, outputs, batch):
        return self._loss.compute(tf.math.l2_normalize(outputs, -1), batch, self._numbers)

    def metrics(self, outputs, encoded):
        if self._by_score:
            return regression(encoded.targets[_TARGET], cosines(outputs[:, 0], outputs[:, 1]), self.metric_names)
        return retrieval(self._ranks(outputs))

    def _ranks(self, outputs):
        return ranks(outputs[:, 0], np.concatenate(outputs[:, 1:].transpose(1, 0, 2)))

    def evaluate(self, outcomes):
        (outcome,) = outcomes
        loss = {} if outcome.losses is None else {"loss": mean_loss(outcome.losses)}
        return self.metrics(outcome.outputs, outcome.encoded) | loss

    def error_report(self, outcome):
        read, outputs = outcome.examples, outcome.outputs
        examples = Shown(read.path, read.ids, read.lines, read.texts, outcome.encoded.lengths, _TOGETHER)
        if not self._by_score:
            return RetrievalReport(examples=examples, ranks=self._ranks(outputs))
        given = cosines(outputs[:, 0], outputs[:, 1])
        gold = outcome.encoded.targets[_TARGET]
        return RegressionReport(examples=examples, gold=gold, given=given, given_name="cosine", is_same_scale=False)

    def decode(self, outcome):
        return outcome.outputs

    def write_answers(self, directory, outcome, answers):
        write_embeddings(directory, outcome.examples, answers)

    def read(self, tokenizer, texts, max_seq_length):
        return encode_served_texts(tokenizer, texts, max_seq_length), None

    def answer(self, outputs, origin=None):
        return {"embedding": outputs}


def _check_freezing(options):
    """Raises ValueError if nothing would be trained."""
    if options.do_train and options.freeze_layers == "all":
        raise ValueError(
            "`freeze_layers=all` requires a head to train, but sentence embeddings have none. Freeze fewer layers."
        )


def _recipe_in(path, tokenizer) -> PoolingConfig:
    """Returns the pooling settings of the initial model.

    Raises:
        ValueError: they are not supported for training.
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
    """Raises ValueError if embeddings are more than pooled encoder layers; `name` is the parameter."""
    if recipe.steps or recipe.lower and not tokenizer.do_lower_case:
        what = "maps its embeddings with Dense modules" if recipe.steps else "lowercases before its tokenizer"
        raise ValueError(
            f"`{name}` must be a model of an encoder, its tokenizer and a pooling. {directory} {what}; use another "
            "model, or its encoder directory."
        )
    if recipe.default_prompt:
        logging.warning("%s has a default prompt, which is not prepended to the texts here.", directory)


def _unused(encoder, layers):
    """Yields the sublayers of the encoder that the selected layers do not use and that would not be trained."""
    if encoder.pooler:
        yield encoder.pooler
    config = encoder.config
    depth = {"embeddings": 0, "second_to_last": config.num_hidden_layers - 1}.get(layers, config.num_hidden_layers)
    read = {n * config.num_blocks // config.num_hidden_layers for n in range(depth)}
    if encoder.relative and not read:
        yield encoder.relative
    yield from (block for n, block in enumerate(encoder.blocks) if n not in read)
