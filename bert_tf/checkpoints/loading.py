"""Loads checkpoints of any format: `load` returns configuration, tokenizer, encoder and head."""

import dataclasses
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from absl import logging

from bert_tf.checkpoints import heads, keras_hub, keras_hub_objects, releases
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.config_shapes import check_shapes
from bert_tf.checkpoints.description_files import HEAD_CLASS, LABELS_FILE, write_labels
from bert_tf.checkpoints.feature_extractor import Extractor, Texts, TokenFeatures
from bert_tf.checkpoints.formats import keras_hub_models
from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.checkpoints.model_tokenizer import read_model_tokenizer
from bert_tf.checkpoints.readers import Checkpoint, open_checkpoint
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import CONFIG_FILES, is_decoder_in
from bert_tf.models.encoder import Encoder
from bert_tf.models.heads import ClassificationHead
from bert_tf.models.pooling import Layers
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.registry import TOKENIZERS
from bert_tf.tokenization.table_registry import tokenizer_in
from bert_tf.utils.files import brief, files_below, read_text

_HEAD = "classifier/output_weights"
_TRANSFORM = "classifier/dense/kernel"  # a head without it classifies every token
_LABEL_KEYS = ("id2label", "label2id")  # of Hugging Face's configurations
_WITH_LABELS = ("ForSequenceClassification", "ForTokenClassification")  # suffixes of Transformers' class names
_MOST_LABELS = 1_000_000
_ALLOWED = (*heads.others(("classifier/.*",)), heads.POOLER)


@dataclasses.dataclass
class Bert:
    """A loaded model: configuration, tokenizer, encoder and optional classification head.

    Attributes:
        config: the `EncoderConfig`.
        tokenizer: a `BaseTokenizer`, or None for a KerasHub backbone, which has none.
        encoder: `Encoder` with the checkpoint's weights.
        head: `ClassificationHead` with its weights, or None.
        labels: the head's label names in the order of its outputs, or None.
        others: {variable path: array}, the weights of heads other than `head`, such as those of pretraining or question
            answering, so that `bert_tf.save` keeps them.
        path: the path it was loaded from, or None.
    """

    config: EncoderConfig
    tokenizer: BaseTokenizer | None
    encoder: Encoder
    head: ClassificationHead | None = None
    labels: list[str] | None = None
    others: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    path: str | None = None
    _built: dict = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @overload
    def features(
        self, texts: Texts, layers: Layers = ..., pooling: str = ..., max_seq_length: int | None = ...
    ) -> np.ndarray: ...
    @overload
    def features(
        self, texts: Texts, layers: Layers = ..., *, pooling: None, max_seq_length: int | None = ...
    ) -> list[TokenFeatures]: ...
    def features(
        self,
        texts: Texts,
        layers: Layers = "last",
        pooling: str | None = "mean",
        max_seq_length: int | None = None,
    ) -> np.ndarray | list[TokenFeatures]:
        """Encodes texts into feature vectors.

            bert.features(["A warm film."], layers="concat_last_4", pooling="mean")       float32 [1, 4 H]

        Args:
            texts: n texts, or n pairs (a, b), each encoded as one sequence.
            layers: `embeddings`, `second_to_last`, `last`, `weighted_sum_last_4` or `weighted_sum_all` (the mean,
                because nothing is learned), `concat_last_4`; or layer indices, negative from -1, the last, whose
                outputs are concatenated.
            pooling: `cls`, `mean`, `max`, `mean_max` ...: one vector per text. If None, one per token.
            max_seq_length: maximum sequence length in tokens; longer texts are truncated. If None, the model's maximum.

        Returns:
            float32 [n, D], or without pooling a list of n `TokenFeatures`.

        Raises:
            ValueError: the layer or pooling does not exist, or the model has no tokenizer.
        """
        if self.tokenizer is None:
            raise ValueError(
                "The model has no tokenizer, so it cannot take texts: it came from a KerasHub backbone. Load it with a "
                "`vocab_file`."
            )
        of_tokens = pooling is None
        layers = layers if isinstance(layers, str) else tuple(layers)
        options = {"layers": layers, "pooling": "mean" if of_tokens else pooling, "max_seq_length": max_seq_length}
        extractor = self._once(tuple(options.values()), lambda: Extractor(self.encoder, self.tokenizer, **options))
        return list(extractor.tokens(texts)) if of_tokens else extractor(texts)

    def predict(self, texts: Any, batch_size: int = 64) -> Any:
        """Predicts for one example or for several with the task that the model was trained for.

            bert_tf.load("reviews").predict("A warm, funny film.")        # {"label": "positive", "probabilities": ...}

        Arguments, results and errors are those of `bert_tf.Predictor`, which also takes the model, and which is faster
        for single texts. The current weights are used: those of the encoder and of `head`.
        """
        predictor = sys.modules["bert_tf"].Predictor  # of a later package, which imports this one
        return self._once("predictor", lambda: predictor(self))(texts, batch_size)

    def _once(self, key, make):
        """Returns what `make` returned for a key and the current encoder and head: tracing takes seconds."""
        key = key, id(self.encoder), id(self.head)
        if key not in self._built:
            self._built[key] = make(), self.encoder, self.head  # as long as they live, no other has their ids
        return self._built[key][0]

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the current weights as {variable path: array}: encoder, head and `others`."""
        variables = [*self.encoder.variables, *(self.head.variables if self.head else [])]
        return {variable.path: np.asarray(variable) for variable in variables} | dict(self.others)

    def to_keras_hub(self, task: str | None = None) -> Any:
        """Converts the model, with its current weights, to a KerasHub object.

            classifier = bert_tf.load("reviews").to_keras_hub("text_classifier")
            classifier.fit(["A warm film."], [1])

        Args:
            task: "text_classifier" or "masked_lm" for that head, which the model must have, with a preprocessor that
                contains its tokenizer. If None, a backbone. Other heads are dropped.

        Returns:
            For example a `keras_hub.models.BertBackbone`, `BertTextClassifier` or `RobertaMaskedLM`.

        Raises:
            ValueError: KerasHub has no equivalent class.
        """
        heads_of_task = {None: (), "text_classifier": ("classifier/",), "masked_lm": ("cls/predictions/",)}
        if task not in heads_of_task:
            raise ValueError(f"`task` must be None, 'text_classifier' or 'masked_lm'; got {task!r}.")
        parts = ("bert/", *heads_of_task[task])
        arrays = {path: array for path, array in self.arrays().items() if path.startswith(parts)}
        classes = self.config.extra.get("architectures")
        classes = [*(classes if isinstance(classes, list) else ()), self.config.extra.get(HEAD_CLASS)]
        names = tuple(name for name in classes if isinstance(name, str))
        return keras_hub_models.build_keras_hub(
            ModelArrays(self.config, arrays, self.tokenizer, self.labels, names), task
        )


def load(
    path: str | os.PathLike,
    do_lower_case: bool | None = None,
    config_file: str | os.PathLike | None = None,
    vocab_file: str | os.PathLike | None = None,
) -> Bert:
    """Loads a Hugging Face, sentence-transformers, KerasHub, TF1 or bert_tf checkpoint, or a live KerasHub model.

    Args:
        path: its directory, or a file or TF1 prefix in it; or its name on the Hugging Face Hub, such as
            "intfloat/e5-small-v2" or, at a branch, tag or commit, "intfloat/e5-small-v2@main"; or a
            `keras_hub.models.Backbone` or `Task`, whose weights are copied.
        do_lower_case: whether to lowercase text. If None, as in the checkpoint's files.
        config_file, vocab_file: other files to use. If None, `bert_config.json` or `config.json` and the vocabulary
            next to the checkpoint.

    Raises:
        ValueError: weights or files are missing, unused, damaged or do not match; or the model cannot be downloaded.
    """
    is_path = isinstance(path, (str, os.PathLike))
    if is_path:
        path = resolve_model(path)
        checkpoint = open_checkpoint(path)  # first: it says best what is wrong with a path
        description = load_description([directory_of(path)], config_file, vocab_file, do_lower_case)
    else:
        checkpoint = Checkpoint(path, "keras_hub_object", keras_hub_objects.name_map_of(path))
        description = _description_of(path, config_file, vocab_file, do_lower_case)
    config = _with_pooler(description.config, checkpoint)
    check_shapes(checkpoint, config)
    encoder, head = Encoder(config), None
    encoder.build()
    variables = list(encoder.variables)
    if _HEAD in checkpoint.names:
        head = ClassificationHead.of(config, checkpoint.shape(_HEAD)[0], _TRANSFORM in checkpoint.names)
        head.build((None, config.hidden_size))
        variables += head.variables
    report = assign_weights(checkpoint, variables, allow_unmatched=_ALLOWED)
    logging.info("%s", report)
    if report.allowed_missing:  # never where the configuration has none
        logging.warning("%s has no pooler: pooled_output uses random weights.", report.path)
    labels = _labels_of(head, description.labels, report.path)
    others = {path: checkpoint.get(path) for path in report.allowed_unused if path in checkpoint.names}
    return Bert(config, description.tokenizer, encoder, head, labels, others, os.fspath(path) if is_path else None)


def _description_of(model, config_file, vocab_file, do_lower_case):
    """Returns the `ModelDescription` of a live KerasHub model, via the files of its preset."""
    with tempfile.TemporaryDirectory() as folder:
        if keras_hub_objects.describe(model, folder) or vocab_file:
            return load_description([folder], config_file, vocab_file, do_lower_case)
        return ModelDescription(EncoderConfig.load(config_file or folder), None, None)


def _with_pooler(config, checkpoint):
    """Returns the configuration with `has_pooler` as in the checkpoint; some families may lack a pooler."""
    there = any(re.fullmatch(heads.POOLER, name) for name in checkpoint.names)
    return dataclasses.replace(config, has_pooler=True) if there else config


def _labels_of(head, labels, path):
    """Returns the labels of the head; some configurations list labels without a head."""
    if head is None or labels is None:
        return None
    if len(labels) != head.num_labels:
        raise ValueError(
            f"{LABELS_FILE} or id2label must name every output of the head in {path}. It has {len(labels)} labels for "
            f"{head.num_labels} outputs."
        )
    return labels


def directory_of(path: str | os.PathLike) -> str:
    """Returns the directory of the files that belong to a checkpoint."""
    path = os.fspath(path)
    return path if os.path.isdir(path) else os.path.dirname(path) or "."


def has_vocabulary(path: str | os.PathLike) -> bool:
    """Returns whether there is a vocabulary next to a checkpoint, or in its directory."""
    directory = directory_of(path)
    return keras_hub.tokenizer_of(directory) is not None or tokenizer_in(directory) is not None


@dataclasses.dataclass
class ModelDescription:
    """A model without its weights: the files of `save_description`, or the same in another format."""

    config: EncoderConfig
    tokenizer: BaseTokenizer | None
    labels: list[str] | None

    def digest(self) -> str:
        """Returns a SHA-256 of the configuration and of the tokenizer."""
        digest = hashlib.sha256()
        with tempfile.TemporaryDirectory() as folder:
            save_description(folder, self.config, self.tokenizer)
            for path in sorted(files_below(folder)):
                with open(path, "rb") as file:
                    digest.update(os.path.relpath(path, folder).encode() + b"\0" + file.read())
        return digest.hexdigest()

    def check_length(self, max_seq_length: int):
        """Raises ValueError if the position table is shorter than `max_seq_length`."""
        if max_seq_length > self.config.max_length:
            less = " - first_position" if self.config.first_position else ""
            raise ValueError(
                f"`max_seq_length` must be at most {self.config.max_length}, max_position_embeddings{less} of the "
                f"checkpoint; got {max_seq_length}."
            )


def load_description(
    paths: Sequence[str | os.PathLike | None],
    config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> ModelDescription:
    """Reads configuration, vocabulary and labels from the first of `paths` that has a configuration.

    The configuration describes the model with adapters, if any, merged into its kernels (`lora` is None).

    Args:
        paths: checkpoints, or their directories; None is skipped.
        config_file, vocab_file: files to use instead of those found in the directory.
        do_lower_case: whether to lowercase text. If None, as in the checkpoint's files or next to the vocabulary.

    Raises:
        ValueError: nothing is found, or the files do not match.
    """
    for path in filter(None, paths):
        if not (os.path.exists(path) or os.path.exists(f"{path}.index")):
            none = f"Checkpoint not found: there is no directory, file or TF1 prefix {path}."
            raise ValueError(f"{none}{releases.advice(path)}")
    directories = [directory_of(path) for path in paths if path]
    if not directories and not (config_file and vocab_file):
        raise ValueError(
            "No model to start from: pass `init_checkpoint`, an existing `output_dir`, or `bert_config_file` with "
            "`vocab_file`."
        )
    here = next((d for d in directories if any(os.path.exists(os.path.join(d, f)) for f in CONFIG_FILES)), None)
    here = here or next(iter(directories), os.path.dirname(vocab_file or ""))
    config = dataclasses.replace(EncoderConfig.load(config_file or here), lora=None)
    if config_file and directories and not config.is_decoder:
        config = _left_to_right_as_trained(config, config_file, here)
    tokenizer = read_model_tokenizer(here, do_lower_case, vocab_file, config, TOKENIZERS)
    check_vocabulary(tokenizer, config)
    return ModelDescription(config, tokenizer, read_labels(here, config))


def _left_to_right_as_trained(config, config_file, directory):
    """Returns the configuration with `is_decoder` if the checkpoint's own has it, which makes the model causal.

    The file used for pretraining has google-research/bert's format, which lacks this key.
    """
    if not is_decoder_in(directory):
        return config
    if "is_decoder" in config.extra:
        raise ValueError(
            f"`bert_config_file` contradicts the model's own configuration: is_decoder is false in {config_file}, but "
            f"the model in {directory} is causal (left-to-right). Remove the key from the file."
        )
    logging.warning("%s does not set is_decoder: using true, as in %s.", config_file, directory)
    return dataclasses.replace(config, is_decoder=True)


def check_vocabulary(tokenizer: BaseTokenizer, config: EncoderConfig):
    """Raises ValueError if the vocabulary has ids beyond the embedding table."""
    if tokenizer.vocab_size > config.vocab_size:
        added = [token.content for token in tokenizer.added_tokens if token.id >= config.vocab_size]
        behind = f", including the added tokens {', '.join(map(brief, added[:5]))}" if added else ""
        raise ValueError(
            f"The vocabulary does not match the embedding table of {config.vocab_size} rows: {tokenizer.vocab_file} "
            f"has {tokenizer.vocab_size} tokens{behind}. Use the `vocab_file` and the `bert_config_file` of one "
            "checkpoint."
        )
    if tokenizer.vocab_size < config.vocab_size:
        logging.warning(
            "%s has %d tokens, but the embedding table has %d rows: the last rows are never used.",
            *(tokenizer.vocab_file, tokenizer.vocab_size, config.vocab_size),
        )


def read_labels(directory: str, config: EncoderConfig) -> list[str] | None:
    """Returns the label names of a fine-tuned model, from labels.txt or as in Transformers; None if there are none.

    In Transformers these are `id2label`; without it, `num_labels` labels (by default 2 for a classifier) are called
    LABEL_0, LABEL_1 and so on.

    Raises:
        ValueError: `id2label` or `num_labels` is invalid.
    """
    path = os.path.join(directory, LABELS_FILE)
    if os.path.exists(path):
        return read_text(path).removesuffix("\n").split("\n")
    if names := config.extra.get("id2label"):
        return _labels_in(names, directory)
    is_theirs = not os.path.exists(os.path.join(directory, CONFIG_FILES[0]))  # ours has labels.txt next to it
    classes = config.extra.get("architectures")
    if not is_theirs or not any(str(name).endswith(_WITH_LABELS) for name in classes or ()):
        return None
    number = config.extra.get("num_labels", 2)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MOST_LABELS:
        raise ValueError(
            f"num_labels of the configuration in {directory} must be an integer from 1 to {_MOST_LABELS:,}; got "
            f"{brief(number)}."
        )
    return default_labels(number) if number > 1 else None  # of a single one nobody asks the name


def default_labels(number: int) -> list[str]:
    """Returns Transformers' default names for unnamed labels."""
    return [f"LABEL_{n}" for n in range(number)]


def _labels_in(names, directory):
    """Returns the labels of `id2label`, whose keys must be consecutive integers from 0."""
    labels = [names.get(str(i)) for i in range(len(names))] if isinstance(names, dict) else [None]
    labels = [str(label) if isinstance(label, int) else label for label in labels]  # {"0": 0, "1": 1}
    wrong = [label for label in labels if not isinstance(label, str) or "\n" in label]
    if wrong:
        raise ValueError(
            f"id2label of the configuration in {directory} must have consecutive integers from 0 as keys: "
            f'{{"0": "no", "1": "yes"}}; got {brief(names)}; write it like this, or write the names to {LABELS_FILE}, '
            "one per line."
        )
    return labels


def save_description(directory: str, config: EncoderConfig, tokenizer: BaseTokenizer, labels: list[str] | None = None):
    """Writes what `load` reads, except the weights: bert_config.json, labels.txt, the tokenizer files.

    Without labels, those in the configuration, which may be of another head, are removed.
    """
    os.makedirs(directory, exist_ok=True)
    if labels is None:
        extra = {key: value for key, value in config.extra.items() if key not in _LABEL_KEYS}
        config = dataclasses.replace(config, extra=extra)
    config.save(os.path.join(directory, "bert_config.json"))
    tokenizer.save(directory)
    write_labels(directory, labels)
