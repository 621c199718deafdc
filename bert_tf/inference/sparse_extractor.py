"""Sparse embeddings of a masked LM with SPLADE pooling, or of the tokens themselves, as a matrix of SciPy."""

import abc
import itertools
import os

import numpy as np
from absl import logging
from scipy.sparse import csr_matrix, issparse, vstack

from bert_tf.checkpoints.feature_extractor import batches_by_length, check_length, trace_features
from bert_tf.checkpoints.loading import ModelDescription, load_description
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.weight_files import OPENERS, check_finite
from bert_tf.export.precision import build_with_weights
from bert_tf.inference.masked_lm import open_masked_lm
from bert_tf.models.sparse_encoder_files import SpladeConfig, StaticEmbeddingConfig
from bert_tf.tasks.foreign_models import limit_length
from bert_tf.tasks.sparse_embedding import SparseEmbeddingTask
from bert_tf.tokenization.token_counter import TokenCounter
from bert_tf.utils.model_outputs import check_finite_outputs
from bert_tf.utils.token_counts import TokenCountLog

_CHUNK = 10_000  # texts tokenized at a time
_ROWS = 512  # whose weights are in memory at a time, as vectors of the whole vocabulary
_ALL = 2**30  # tokens, where a tokenizer states no maximum
_REMEDY = "Download the model again, because its weights may be damaged."


class SparseExtractor(abc.ABC):
    """Encodes texts into sparse embeddings.

    Args:
        name: name of the model, in warnings.
        description: the `ModelDescription` with its tokenizer, and with V, the size of its vocabulary.
        max_seq_length: maximum sequence length.
        max_active_dims: number of the largest weights to keep of each text. If None, all.

    Attributes:
        tokenizer: the model's.
        width: V.
        token_counts: truncated texts and unknown tokens so far, a `TokenCountLog`.

    Raises:
        ValueError: `max_active_dims` is below 1.
    """

    def __init__(
        self, name: str, description: ModelDescription, max_seq_length: int, max_active_dims: int | None = None
    ):
        if max_active_dims is not None and max_active_dims < 1:
            raise ValueError(f"`max_active_dims` must be 1 or more; got {max_active_dims}.")
        self.tokenizer, self.width = description.tokenizer, description.config.vocab_size
        self.token_counts = TokenCountLog(name, max_seq_length)
        self._longest, self._most = max_seq_length, max_active_dims

    def __call__(self, texts: list[str]) -> csr_matrix:
        """Returns the weights of all tokens in the vocabulary for each text, float32 [n, V]."""
        with self.token_counts.together():
            parts = [self._embed(texts[start : start + _CHUNK]) for start in range(0, len(texts), _CHUNK)]
        return vstack(parts, "csr") if parts else csr_matrix((0, self.width), dtype=np.float32)

    @abc.abstractmethod
    def _embed(self, texts) -> csr_matrix:
        """Returns the same of a part of the texts, which are counted."""

    def _sparse(self, weights):
        """Returns a matrix of the weights of a batch, float32 [n, V], or of the largest."""
        return csr_matrix(weights if self._most is None else _keep_largest(weights, self._most))


class SpladeExtractor(SparseExtractor):
    """Encodes texts with a masked LM and SPLADE pooling.

    Args:
        path: a Hugging Face or bert_tf directory, or a TF1 checkpoint's prefix, with a masked-LM head.
        recipe: how its logits are pooled, and the maximum sequence length in its files.
        max_seq_length: maximum sequence length. If None, that of the recipe, but at most the model's.
        do_lower_case: as in `bert_tf.load`.
        max_active_dims: as in `SparseExtractor`.

    Raises:
        ValueError: there is no such model, it has no masked-LM head, it is causal, or a number is out of range.
    """

    def __init__(
        self,
        path: str,
        recipe: SpladeConfig,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        max_active_dims: int | None = None,
    ):
        checkpoint, description = open_masked_lm(path, None, do_lower_case)
        if description.config.is_decoder:
            raise ValueError(
                f"Sparse embeddings require a masked LM, but {path} is a causal LM, which predicts the next token "
                "(is_decoder in its configuration)."
            )
        longest = max_seq_length or limit_length(recipe.max_seq_length, description.config)
        check_length(longest, description.tokenizer, description.config)
        super().__init__(path, description, longest, max_active_dims)
        task = SparseEmbeddingTask(description.config, recipe.pooling, recipe.activation)
        model, report = build_with_weights(task, checkpoint)
        logging.info("%s", report)
        self._compute = trace_features(lambda features: model(features, training=False))

    def _embed(self, texts):
        counter = TokenCounter(self.tokenizer)
        rows = counter.pack(counter.tokenize(texts), max_seq_length=self._longest)
        self.token_counts.add(counter.counts().numpy())
        order, parts = [], []
        for chosen, features in batches_by_length(self.tokenizer, rows, self._longest):
            weights = self._compute(features).numpy()
            check_finite_outputs([weights], _REMEDY, chosen)
            order.append(chosen)
            parts.append(self._sparse(weights))
        return vstack(parts, "csr")[np.argsort(np.concatenate(order))]


class StaticExtractor(SparseExtractor):
    """Encodes texts as the weights of their tokens, each counted once, without special tokens and without an encoder.

    Args:
        directory: directory of the SparseEncoder.
        recipe: where its weights are.
        max_seq_length: number of tokens that are read of a text. If None, the number in its files, otherwise all.
        do_lower_case, max_active_dims: as in `SpladeExtractor`.

    Raises:
        ValueError: the weights are missing or damaged, or a number is out of range.
    """

    def __init__(
        self,
        directory: str,
        recipe: StaticEmbeddingConfig,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        max_active_dims: int | None = None,
    ):
        folder = os.path.join(directory, recipe.weights)
        files = [os.path.join(folder, name) for name in ("tokenizer.json", "vocab.txt")]
        vocab_file = next(filter(os.path.exists, files), None)
        encoder = os.path.join(directory, recipe.folder) if recipe.folder else directory
        description = load_description([encoder], vocab_file=vocab_file, do_lower_case=do_lower_case)
        longest = max_seq_length or recipe.max_seq_length or _ALL
        if longest < 1:
            raise ValueError(f"`max_seq_length` must be 1 or more; got {longest}.")
        super().__init__(folder, description, longest, max_active_dims)
        form, path = locate(folder)
        file = OPENERS[form](path)
        if file.shapes != {"weight": (self.width,)}:
            raise ValueError(
                f"{path} must contain `weight` with {self.width:,} numbers, one for each token of the vocabulary; it "
                f"has {str(file.shapes):.300}. Copy it again."
            )
        self._weights = file.read("weight").astype(np.float32)
        check_finite(self._weights, "weight", path)

    def _embed(self, texts):
        counter = TokenCounter(self.tokenizer)
        ids = counter.tokenize(texts)
        counter.pack(ids, max_seq_length=self._longest + self.tokenizer.template.special(1))  # which counts
        self.token_counts.add(counter.counts().numpy())
        ids, parts = ids[:, : self._longest], []
        for start in range(0, len(texts), _ROWS):
            part = ids[start : start + _ROWS]
            weights = np.zeros([part.nrows(), self.width], np.float32)
            weights[part.value_rowids().numpy(), part.flat_values.numpy()] = self._weights[part.flat_values.numpy()]
            parts.append(self._sparse(weights))
        return vstack(parts, "csr")


def _keep_largest(weights, number):
    """Returns float32 [n, V] with zeros in place of all but the `number` largest weights of each row."""
    if number >= weights.shape[1]:
        return weights
    largest = np.argpartition(-weights, number - 1, -1)[:, :number]
    kept = np.zeros_like(weights)
    np.put_along_axis(kept, largest, np.take_along_axis(weights, largest, -1), -1)
    return kept


def largest_tokens(
    vectors: csr_matrix, extractor: SparseExtractor, top_k: int | None = None
) -> list[list[tuple[str, float]]]:
    """Returns (token, weight) of the largest weights of each row, the largest first; in ties, the lowest id.

    Args:
        vectors: sparse embeddings of the extractor, [n, V].
        extractor: whose vocabulary has the tokens; rows of the embedding table without a token have the name "".
        top_k: number of tokens per row. If None, all with a weight.

    Raises:
        ValueError: `vectors` are not sparse, or of another width; or `top_k` is below 1.
    """
    if not issparse(vectors) or vectors.ndim != 2 or vectors.shape[1] != extractor.width:
        raise ValueError(
            f"`vectors` must be a SciPy sparse matrix, [n, {extractor.width}]; got "
            f"{type(vectors).__name__} {list(np.shape(vectors))}; pass embeddings of this encoder."
        )
    if top_k is not None and top_k < 1:
        raise ValueError(f"`top_k` must be 1 or more; got {top_k}.")
    rows, vocab, found = csr_matrix(vectors), extractor.tokenizer.vocab, []
    for start, end in itertools.pairwise(rows.indptr.tolist()):
        ids, weights = rows.indices[start:end], rows.data[start:end]
        order = np.lexsort((ids, -weights))[:top_k]
        tokens = [vocab[n] if n < len(vocab) else "" for n in ids[order].tolist()]
        found.append(list(zip(tokens, weights[order].tolist(), strict=True)))
    return found
