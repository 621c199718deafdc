"""Sentence embeddings: a bi-encoder encodes each text separately, trained on pairs (Reimers and Gurevych 2019)."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.data.checked_examples import CheckedExamples, TableLayout
from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.data.ranking_files import RankingExamples
from bert_tf.data.tables import LabeledTexts
from bert_tf.evaluation.cosine_similarity import cosines, unit
from bert_tf.evaluation.error_reports.ranking import RankingReport, RetrievalReport
from bert_tf.evaluation.error_reports.regression import RegressionReport
from bert_tf.evaluation.error_reports.report import DisplayedExamples
from bert_tf.evaluation.metrics import mean_loss, regression
from bert_tf.evaluation.ranking import METRICS as RANKING_METRICS
from bert_tf.evaluation.ranking import first_relevant, ranking_metrics
from bert_tf.evaluation.retrieval import ranks, retrieval
from bert_tf.models.config import EncoderConfig
from bert_tf.models.encoder import Encoder
from bert_tf.models.pooling import PooledFeatures, check_layers, check_pooling, pooled_width
from bert_tf.models.sentence_transformers_files import (
    PROMPT_NAMES,
    PoolingConfig,
    is_sparse_encoder,
    read_recipe,
    warn_of_other_prompts,
    warn_of_similarity,
)
from bert_tf.models.windows import RowsTogether, TakeWindows
from bert_tf.tasks.base import FineTuningTask, TaskData, TrainedTask
from bert_tf.tasks.embedding.data import read_embedding_data
from bert_tf.tasks.embedding.encoding import encode_text_groups
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS, LossParameters, evaluation_by
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.recipe import check_pooled_prompts, check_recipe, parse_prompts, read_initial_recipe
from bert_tf.tasks.foreign_models import limit_length, log_shorter_length
from bert_tf.tasks.ranking_data import rank_relevances
from bert_tf.tasks.sequences import encode_served_texts
from bert_tf.utils.files import atomic_open
from bert_tf.utils.json_files import json_text

_PREDICTIONS = "predictions.jsonl"
_METRICS = {
    "spearman": ("spearman", "pearson"),
    "retrieval": ("recall_at_1", "recall_at_10", "mrr"),
    "ranking": RANKING_METRICS,
}
_TARGET = "label_values"
_TOGETHER = "tokens of all texts"


class EmbeddingTask(FineTuningTask):
    """Sentence embeddings: an encoder with pooling; see `tasks/base.py` for the methods.

    Args:
        config: configuration of the encoder.
        layers: the layers that are pooled, one of `names.LAYERS`; a weighted sum is a mean, because no weights are
            trained.
        poolings: some of `names.POOLINGS`; several are concatenated.
        normalize: whether to divide served embeddings by their length; losses and metrics always use cosines.
        loss: a key of `LOSS_FUNCTIONS`.
        loss_temperature, loss_margin: parameters of the losses that have them.
        matryoshka_dims: numbers of leading dimensions that are embeddings too: the loss is the mean over them (Kusupati
            et al. 2022, with equal weights), and metrics are also computed for each. If empty, all dimensions count.
        prompts: name -> text that is prepended. The first text of an example is a query and the others are documents,
            as in `PoolingConfig.prompt_name_for`. If None, there are none.
        default_prompt: name of the prompt for single texts, and for kinds of texts without a prompt of their own.
        dim: number of leading dimensions of predictions, metrics and served embeddings; the loss uses all. If None,
            all.
        eval_metric: "spearman": evaluations correlate cosines with scores; "retrieval": they measure how well first
            texts find their second ones; "ranking": how well queries order their documents; "auto": one of the first
            two, depending on the loss.
        gradient_checkpointing: as in `Encoder`.
        every_row: as `every` in `models/windows.py`: whether the model will be compiled with XLA.

    Raises:
        ValueError: the layers or the pooling are unknown, or not supported by the model; or it has fewer dimensions.
    """

    name = "embedding"
    options = EmbeddingOptions()
    files = (_PREDICTIONS,)
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
        matryoshka_dims: Sequence[int] = (),
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        dim: int | None = None,
        eval_metric: str = "auto",
        gradient_checkpointing: bool = False,
        every_row: bool = False,
    ):
        check_layers(layers, config.num_hidden_layers)
        check_pooling(tuple(poolings), config.is_decoder)
        self.config, self.loss_name = config, loss
        of_prompts = {"prompts": dict(prompts or {}), "default_prompt": default_prompt}
        self.recipe = PoolingConfig(layers, tuple(poolings), bool(normalize), **of_prompts, dim=dim)
        self._loss, self._numbers = LOSS_FUNCTIONS[loss], LossParameters(float(loss_temperature), float(loss_margin))
        self._eval_metric = evaluation_by(loss, eval_metric)
        self._width = pooled_width(layers, tuple(poolings), config.hidden_size)
        _check_dims(matryoshka_dims, self._width)
        self.matryoshka_dims = tuple(matryoshka_dims)
        self._metric_names = _METRICS[self._eval_metric]
        self._shorter = [each for each in self.matryoshka_dims if each < min(self._width, dim or self._width)]
        shorter = [f"{name}_dim_{dim}" for dim in self._shorter for name in self._metric_names]
        self.metric_names = (*self._metric_names, *shorter)
        self.loss_of_batch = self._loss.of_batch
        self.gradient_checkpointing, self._every_row = gradient_checkpointing, every_row

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
            matryoshka_dims=list(map(str, trained.task.matryoshka_dims)),
        )
        for name, given, value in (
            ("layers", options.layers, kept.layers),
            ("pooling", options.pooling, kept.pooling),
            ("normalize", options.normalize, kept.normalize),
            ("matryoshka_dims", options.matryoshka_dims, kept.matryoshka_dims),
        ):
            if given not in (None, value):
                raise ValueError(f"`{name}` must match the trained model's, {value}; got {given}; omit it.")
        if options.prompts is not None and parse_prompts(options.prompts) != (recipe.prompts, recipe.default_prompt):
            raise ValueError(
                f"`prompts` must match the trained model's, {json_text(recipe.prompts)}; got {options.prompts}; "
                "omit it."
            )
        return kept

    @classmethod
    def read_data(cls, options, kinds, trained):
        if trained and not options.do_train:
            _check_loss(options, trained.task)
        return TaskData(read_embedding_data(options, kinds))

    @classmethod
    def checked_examples(cls, examples, data, options):
        more = {"target": "score", "dialect": options.dialect}
        if isinstance(examples, RankingExamples):
            texts = {"query": examples.queries, "documents": list(map("\n".join, examples.documents))}
            return CheckedExamples(examples.path, examples.where, texts, None, dialect=options.dialect)
        if not isinstance(examples, LabeledTexts):
            return CheckedExamples(
                examples.path, examples.where, examples.texts, examples.labels, optional=("negatives",), **more
            )
        if not options.task_name:
            more["table"] = TableLayout(options.header, options.text_column, options.label_column)
        more |= {"bad_labels": examples.bad_labels, "bad_texts": examples.bad_texts}
        return CheckedExamples(examples.path, examples.where, examples.texts, examples.labels, **more)

    @classmethod
    def create(cls, model, data, options, before, use_xla=False):
        of_run = {
            "eval_metric": options.eval_metric,
            "gradient_checkpointing": options.gradient_checkpointing,
            "every_row": use_xla,
        }
        if before and not options.do_train:
            return cls(model.config, **before.task.to_dict() | of_run)
        _check_freezing(options)
        start = read_initial_recipe(options.init_checkpoint, model.tokenizer)
        log_shorter_length(options, start.max_seq_length, model.config)
        if options.prompts is None:
            remedy = "Pass `prompts` with the keys query and document"
            warn_of_other_prompts(options.init_checkpoint, start.other_prompts, remedy)
        warn_of_similarity(options.init_checkpoint, start.similarity, options.normalize or start.normalize)
        prompts, default = (
            (start.prompts, start.default_prompt) if options.prompts is None else parse_prompts(options.prompts)
        )
        task = cls(
            model.config,
            layers=options.layers or start.layers,
            poolings=options.pooling or start.poolings,
            normalize=start.normalize if options.normalize is None else options.normalize,
            loss=options.loss,
            loss_temperature=options.temperature,
            loss_margin=options.margin,
            matryoshka_dims=_parse_dims(options.matryoshka_dims),
            prompts=prompts,
            default_prompt=default,
            dim=start.dim,
            **of_run,
        )
        shown = {kind: task.recipe.prompt_for(kind) for kind in PROMPT_NAMES}
        check_pooled_prompts("init_checkpoint", options.init_checkpoint, start, any(shown.values()))
        if any(shown.values()):
            logging.info("Prompts: %s.", ", ".join(f"{kind} {text!r}" for kind, text in shown.items()))
        if options.do_train and task.matryoshka_dims and task._width not in task.matryoshka_dims:
            logging.warning(
                "`matryoshka_dims` lacks %d, the full number of dimensions, so whole embeddings are not trained. "
                "Exports return all dimensions; add %d unless you will always use `dim`.",
                *(task._width, task._width),
            )
        return task

    @classmethod
    def with_foreign_defaults(cls, options, model):
        stated = read_initial_recipe(options.init_checkpoint, model.tokenizer).max_seq_length
        return dataclasses.replace(options, max_seq_length=limit_length(stated, model.config))

    @classmethod
    def from_pretrained(cls, directory, model):
        if is_sparse_encoder(directory):
            return None
        recipe = read_recipe(directory)
        if recipe is None:
            return None
        check_recipe("model", directory, recipe, model.tokenizer)
        check_pooled_prompts("model", directory, recipe, bool(recipe.prompt_for(None)))
        longest = limit_length(recipe.max_seq_length, model.config)
        given = {"prompts": recipe.prompts, "default_prompt": recipe.default_prompt, "dim": recipe.dim}
        task = cls(model.config, recipe.layers, recipe.poolings, recipe.normalize, **given)
        return TrainedTask(task, ("text",), longest)

    @property
    def targets(self):
        return () if self._loss.of_batch else (_TARGET,)

    def to_dict(self):
        recipe, numbers = self.recipe, self._numbers
        return {
            "layers": recipe.layers,
            "poolings": list(recipe.poolings),
            "normalize": recipe.normalize,
            "loss": self.loss_name,
            "loss_temperature": numbers.temperature,
            "loss_margin": numbers.margin,
            "matryoshka_dims": list(self.matryoshka_dims),
            "prompts": dict(recipe.prompts),
            "default_prompt": recipe.default_prompt,
            "dim": recipe.dim,
        }

    def identity(self):
        return self.to_dict()

    def build_model(self) -> keras.Model:
        """Builds a model from `features`, int32 [B, N, S], to the embeddings of N texts, float32 [B, N, D]."""
        inputs = keras_inputs(self.features, windows=True)
        sequences = TakeWindows(self._every_row, name="take_rows")(inputs)
        encoder = Encoder(self.config, gradient_checkpointing=self.gradient_checkpointing)
        for part in _unused(encoder, self.recipe.layers):
            part.trainable = False
        vectors = self._pooled(encoder(sequences), sequences)
        together = RowsTogether(self._every_row, name="rows_together")(vectors, inputs["input_mask"])
        return keras.Model(inputs, together, name="embedding")

    def for_serving(self, model):
        """Returns the model for a single text: int32 [B, S] to float32 [B, D]."""
        inputs = keras_inputs(self.features)
        encoder = next(layer for layer in model.layers if isinstance(layer, Encoder))
        return keras.Model(inputs, self._pooled(encoder(inputs), inputs, self.recipe.dim), name="one_text")

    def _pooled(self, outputs, sequences, dim=None):
        recipe = self.recipe
        pooled = PooledFeatures(recipe.layers, recipe.poolings, recipe.normalize, dim, name="pooled_features")
        return pooled(outputs, sequences["input_mask"])

    def encode_examples(self, tokenizer, examples, max_seq_length, with_targets):
        if isinstance(examples, RankingExamples):
            groups = [[query, *texts] for query, texts in zip(examples.queries, examples.documents, strict=True)]
            encoded = encode_text_groups(tokenizer, self._with_prompts(groups), max_seq_length, {}, examples.path)
            return dataclasses.replace(encoded, origin=examples)
        scores, targets = examples.labels, {}
        is_table = isinstance(examples, LabeledTexts)
        groups = list(zip(*examples.texts.values(), strict=True)) if is_table else examples.groups
        fits = self._loss.of_batch or set(map(len, groups)) <= set(self._loss.texts)
        if scores is None and fits and not self._loss.scores:  # a target that says: these are texts to learn from
            scores = np.ones(len(examples))
        if with_targets and scores is not None:
            targets = {_TARGET: np.asarray(scores, np.float32)}
        return encode_text_groups(tokenizer, self._with_prompts(groups), max_seq_length, targets, examples.path)

    def _with_prompts(self, groups):
        """Returns the texts of examples with their prompts: a query and documents, or a single text."""
        alone, query, document = (self.recipe.prompt_for(kind) for kind in (None, *PROMPT_NAMES))
        if not (alone or query or document):
            return groups
        return [
            [query + first, *(document + text for text in others)] if others else [alone + first]
            for first, *others in groups
        ]

    def loss(self, outputs, batch, normalizers):
        losses = self._losses(outputs, batch) * batch["is_real_example"]
        return tf.reduce_sum(losses) / normalizers["examples"]

    def example_losses(self, outputs, batch):
        """Returns None if an example's loss depends on its batch, and thus on the batch size, or has another label."""
        if self._loss.of_batch or self._eval_metric != evaluation_by(self.loss_name):
            return None
        losses = self._losses(outputs, batch)
        return losses, tf.ones_like(losses)

    def reduce_outputs(self, outputs, batch):
        vectors = outputs[:, :, : self.recipe.dim]
        return tf.math.l2_normalize(vectors, -1) if self.recipe.normalize else vectors

    def _losses(self, outputs, batch):
        dims = self.matryoshka_dims or [outputs.shape[-1]]
        vectors = (tf.math.l2_normalize(outputs[:, :, :dim], -1) for dim in dims)
        return tf.add_n([self._loss.compute(each, batch, self._numbers) for each in vectors]) / len(dims)

    def metrics(self, outputs, encoded):
        found = self._scores(outputs, encoded)
        for dim in self._shorter:
            found |= {f"{name}_dim_{dim}": value for name, value in self._scores(outputs[:, :, :dim], encoded).items()}
        return found

    def _scores(self, outputs, encoded):
        if self._eval_metric == "ranking":
            return ranking_metrics(_rank(outputs, encoded.origin), encoded.origin.judged)
        if self._eval_metric == "spearman":
            return regression(encoded.targets[_TARGET], cosines(outputs[:, 0], outputs[:, 1]), self._metric_names)
        return retrieval(self._ranks(outputs, encoded))

    def _ranks(self, outputs, encoded):
        texts = _number_texts(encoded, *outputs.shape[:2])
        there = texts[:, 1:].T >= 0
        candidates = outputs[:, 1:].transpose(1, 0, 2)[there]
        return ranks(outputs[:, 0], candidates, texts[:, 0], texts[:, 1:].T[there])

    def evaluate(self, outcomes):
        (outcome,) = outcomes
        loss = {} if outcome.losses is None else {"loss": mean_loss(outcome.losses)}
        return self.metrics(outcome.outputs, outcome.encoded) | loss

    def error_report(self, outcome):
        read, outputs = outcome.examples, outcome.outputs
        texts = {"query": read.queries} if self._eval_metric == "ranking" else read.texts
        examples = DisplayedExamples(read.path, read.ids, read.lines, texts, outcome.encoded.lengths, _TOGETHER)
        if self._eval_metric == "ranking":
            return RankingReport(examples=examples, ranks=np.array(list(map(first_relevant, _rank(outputs, read)))))
        if self._eval_metric == "retrieval":
            return RetrievalReport(examples=examples, ranks=self._ranks(outputs, outcome.encoded))
        given = cosines(outputs[:, 0], outputs[:, 1])
        gold = outcome.encoded.targets[_TARGET]
        return RegressionReport(examples=examples, gold=gold, given=given, given_name="cosine", is_same_scale=False)

    def decode(self, outcome):
        return outcome.outputs

    def write_answers(self, directory, outcome, answers):
        """Writes predictions.jsonl: `id`, `text`, `embedding`; for pairs `id`, `text_a`, `text_b`, `cosine`."""
        examples = outcome.examples
        is_pair = examples.text_b is not None
        values = cosines(answers[:, 0], answers[:, 1]) if is_pair else answers[:, 0]
        with atomic_open(os.path.join(directory, _PREDICTIONS)) as file:
            for name, *texts, value in zip(examples.ids, *examples.texts.values(), values, strict=True):
                texts = dict(zip(examples.texts, texts, strict=True))
                line = {"id": name, **texts, "cosine" if is_pair else "embedding": value.tolist()}
                file.write(json_text(line, ensure_ascii=False) + "\n")

    def preprocess(self, tokenizer, texts, max_seq_length):
        if prompt := self.recipe.prompt_for(None):
            texts = [tf.strings.join([prompt, text]) for text in texts]
        return encode_served_texts(tokenizer, texts, max_seq_length), None

    def postprocess(self, outputs, origin=None):
        return {"embedding": outputs}


def _rank(outputs, examples):
    """Returns the relevances of each query's documents in the order of their cosines, the highest first."""
    vectors = (unit(row[: 1 + len(documents)]) for row, documents in zip(outputs, examples.documents, strict=True))
    return rank_relevances((each[1:] @ each[0] for each in vectors), examples)


def _number_texts(encoded, count, most):
    """Returns a number for each text of n examples, equal for equal tokens, and -1 for a missing text, int64 [n, N]."""
    tokens, numbers, known = encoded.rows, np.full([count, most], -1), {}
    of_rows = np.split(tokens.features["input_ids"], tokens.splits[1:-1])
    there = np.arange(most) < encoded.row_counts[:, np.newaxis]
    numbers[there] = [known.setdefault(ids.tobytes(), len(known)) for ids in of_rows]
    return numbers


def _parse_dims(given: Sequence[str] | None) -> tuple[int, ...]:
    if wrong := [each for each in given or () if not (each.strip().isascii() and each.strip().isdecimal())]:
        raise ValueError(f"`matryoshka_dims` must be whole numbers; got {wrong[0]!r}.")
    return tuple(map(int, given or ()))


def _check_dims(dims, width):
    """Raises ValueError unless each of `dims` is a number of dimensions of embeddings with `width` of them."""
    if not all(1 <= dim <= width for dim in dims) or len(set(dims)) < len(dims):
        raise ValueError(
            f"`matryoshka_dims` must be different numbers from 1 to {width}, the number of dimensions of the "
            f"embeddings; got {','.join(map(str, dims))}."
        )


def _check_loss(options, task):
    """Raises ValueError if the user gave a loss, temperature or margin that differs from the trained model's."""
    given = {"loss": options.loss} | {name: options.where_given(name) for name in ("temperature", "margin")}
    own = {"loss": task.loss_name, **dataclasses.asdict(task._numbers)}
    for name, value in given.items():
        if value not in (None, own[name]):
            raise ValueError(f"`{name}` must match the trained model's, {own[name]}; got {value}; omit it.")


def _check_freezing(options):
    """Raises ValueError if nothing would be trained."""
    if options.do_train and options.freeze_layers == "all":
        raise ValueError(
            "`freeze_layers=all` requires a head to train, which sentence embeddings do not have. Freeze fewer layers."
        )


def _unused(encoder, layers):
    """Yields the sublayers of the encoder that the selected layers do not use and that would not be trained."""
    if encoder.pooler:
        yield encoder.pooler
    config = encoder.config
    depth = {"embeddings": 0, "second_to_last": config.num_hidden_layers - 1}.get(layers, config.num_hidden_layers)
    read = {n * config.num_blocks // config.num_hidden_layers for n in range(depth)}
    if not read:
        yield from filter(None, (encoder.relative, encoder.convolution))
    yield from (block for n, block in enumerate(encoder.blocks) if n not in read)
