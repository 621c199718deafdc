"""Sentence embeddings, dense or sparse, from a sentence-transformers directory, a trained embedder or any encoder."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.feature_extractor import Extractor
from bert_tf.checkpoints.hub_models import resolve_model
from bert_tf.checkpoints.loading import directory_of, load, load_description
from bert_tf.checkpoints.locate import locate
from bert_tf.checkpoints.readers import hash_weights
from bert_tf.checkpoints.weight_files import OPENERS, check_finite
from bert_tf.inference.settings import DEFAULT_ENCODING, EncodeOptions
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_files import task_in
from bert_tf.models.pooling import pooled_width
from bert_tf.models.sentence_transformers_files import (
    MODULES,
    PROMPT_NAMES,
    Dense,
    PoolingConfig,
    PromptConfig,
    read_recipe,
    tokenizer_length,
    warn_of_other_prompts,
    warn_of_similarity,
)
from bert_tf.models.sparse_encoder_files import SpladeConfig, StaticEmbeddingConfig, read_sparse_config
from bert_tf.tasks.registry import read_task
from bert_tf.utils.loaded_by_path import LoadedByPath
from bert_tf.utils.text_inputs import text_list
from bert_tf.utils.token_counts import TokenCountLog

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from bert_tf.inference.sparse_extractor import SparseExtractor

_ACTIVATIONS = {"Tanh": tf.tanh, "ReLU": tf.nn.relu, "GELU": functools.partial(tf.nn.gelu, approximate=False),
                "Sigmoid": tf.sigmoid, "Identity": tf.identity}  # fmt: skip
_WEIGHT, _BIAS, _RESIDUAL = "linear.weight", "linear.bias", "residual.weight"  # of a Dense module


class SentenceEncoder(LoadedByPath):
    """Sentence encoder: maps texts to embedding vectors.

        encoder = SentenceEncoder("demo/weights/minilm")
        vectors = encoder.encode(["A warm film.", "It rains."])  # float32 [2, 384]; encoder(texts) is the same
        encoder.similarity(vectors, vectors)                     # cosines, float32 [2, 2]

    The settings of a sentence-transformers directory are used: modules, pooling, length and prompts. A model trained
    with `bert-tf train embedder` is used as trained. For any other model, the last layer is mean-pooled without
    normalization. A SparseEncoder, such as SPLADE, has sparse embeddings: a weight for each token of the vocabulary.

    Args:
        path: a model, as in `bert_tf.load`.
        kind: "query" or "document": the kind of the texts, which selects the model's prompt and, if it has a Router,
            the route. If None, the default prompt and route.
        sparse: whether to compute sparse embeddings, by max pooling, with the masked-LM head of a model that is not a
            sentence encoder. A SparseEncoder always computes sparse embeddings.
        max_active_dims: number of weights to keep in each sparse embedding, the largest ones. If None, all.
        layers: encoder layers to pool, one of `names.LAYERS`.
        pooling: pooling of token features into one vector, one or several of `names.POOLINGS`.
        normalize: whether to scale each embedding to unit length.
        prompt: text to prepend to every text.
        prompt_name: name of a prompt in the model's directory, as an alternative to `prompt`.
        max_seq_length: maximum text length in tokens, including special tokens.
        do_lower_case: whether to lowercase the text.
        dim: number of leading dimensions to keep, for models trained with `matryoshka_dims`.

    The last eight override the model's own settings, which None keeps.

    Attributes:
        recipe: how embeddings are computed, a `PoolingConfig`, or for sparse ones a `SpladeConfig` or a
            `StaticEmbeddingConfig`.
        prompt: the prompt put before every text.
        token_counts: truncated texts and unknown tokens so far, a `TokenCountLog`.

    Raises:
        ValueError: the directory has an unsupported module, or an option is not available, such as `dim` dimensions.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        kind: str | None = None,
        sparse: bool = False,
        max_active_dims: int | None = None,
        layers: str | None = None,
        pooling: str | Sequence[str] | None = None,
        normalize: bool | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dim: int | None = None,
    ) -> None:
        options = EncodeOptions(layers, pooling, normalize, prompt, prompt_name, max_seq_length, do_lower_case, dim)
        path = resolve_model(path)
        if kind not in (None, *PROMPT_NAMES):
            raise ValueError(f"`kind` must be one of {', '.join(PROMPT_NAMES)}, or None; got {kind!r}.")
        sparse_recipe = _sparse_recipe_of(path, kind, sparse, options)
        self._extractor: Extractor | SparseExtractor
        if sparse_recipe:
            self.recipe: PoolingConfig | SpladeConfig | StaticEmbeddingConfig = sparse_recipe
            self.prompt = prompt_of(sparse_recipe, options, kind)
            self._extractor = _open_sparse(path, sparse_recipe, options, max_active_dims)
            self._lower = sparse_recipe.lower and not self._extractor.tokenizer.do_lower_case
            return
        if max_active_dims is not None:
            raise ValueError(
                f"`max_active_dims` requires sparse embeddings, and {path} has dense ones. Remove it, or use `dim`."
            )
        self.recipe = recipe = recipe_of(path, options)
        self.prompt = prompt_of(recipe, options, kind)
        bert = load(os.path.join(path, recipe.folder) if recipe.folder else path, options.do_lower_case)
        tokenizer = bert.tokenizer
        self._lower = recipe.lower and not tokenizer.do_lower_case
        longest = recipe.max_seq_length
        if longest is not None and options.max_seq_length is None:
            longest = min(longest, bert.config.max_length)
        self._extractor = Extractor(
            bert.encoder,
            tokenizer,
            recipe.layers,
            recipe.poolings,
            recipe.normalize,
            longest,
            unpooled=count_unpooled(tokenizer, *self._prepared([""], self.prompt), recipe),
            finish=make_finish(directory_of(path), recipe.steps, recipe.dim),
            name=os.fspath(path),
        )
        if options.dim is not None:
            pooled = pooled_width(recipe.layers, recipe.poolings, bert.config.hidden_size)
            width = next((step.width for step in reversed(recipe.steps) if step), pooled)
            _check_dim(directory_of(path), options.dim, width)

    def __call__(self, texts: Sequence[str]) -> "np.ndarray | csr_matrix":
        """Returns the embeddings of texts, as `encode` does."""
        return self.encode(texts)

    def encode(self, texts: Sequence[str], *, prompt_name: str | None = None) -> "np.ndarray | csr_matrix":
        """Returns the embeddings of texts, float32 [n, D]; sparse ones as a `scipy.sparse.csr_matrix`.

        Args:
            texts: any number; batches are formed by length.
            prompt_name: name of the model's prompt to prepend to these texts. If None, the prompt of this encoder.

        Raises:
            ValueError: the input is not texts, see `text_inputs.text_list`; or the model has no such prompt, or leaves
                its prompt out of the pooling, which is determined when the encoder is created.
        """
        self.check_process()
        if prompt_name is None:
            return self._extractor(self._prepared(texts, self.prompt))
        prompt = prompt_of(self.recipe, EncodeOptions(prompt_name=prompt_name))
        if prompt != self.prompt and not getattr(self.recipe, "include_prompt", True):
            raise ValueError(
                "`prompt_name` of `encode` requires a model that pools its prompt, and this one does not. Pass it to "
                "SentenceEncoder."
            )
        return self._extractor(self._prepared(texts, prompt))

    def similarity(self, first: "np.ndarray | csr_matrix", second: "np.ndarray | csr_matrix") -> np.ndarray:
        """Returns the similarity of every pair of embeddings, float32 [n, m]: cosines, or dot products of sparse ones.

        Args:
            first: embeddings of this encoder, [n, D].
            second: embeddings of this encoder, [m, D].

        Raises:
            ValueError: the embeddings have another width.
        """
        if first.shape[-1] != self.width or second.shape[-1] != self.width:
            raise ValueError(
                f"`first` and `second` must have {self.width} columns, the width of this encoder; got "
                f"{first.shape[-1]} and {second.shape[-1]}."
            )
        if not isinstance(first, np.ndarray):
            return (first @ second.T).toarray()
        rows = [each / np.maximum(np.linalg.norm(each, axis=-1, keepdims=True), 1e-12) for each in (first, second)]
        return rows[0] @ rows[1].T

    def decode(self, vectors: "csr_matrix", top_k: int | None = None) -> list[list[tuple[str, float]]]:
        """Returns the tokens of sparse embeddings and their weights, the largest weight first.

        Args:
            vectors: sparse embeddings of this encoder, [n, D].
            top_k: number of tokens per embedding. If None, all with a weight.

        Raises:
            ValueError: this encoder's embeddings are dense, `vectors` are not sparse ones of its width, or `top_k` is
                below 1.
        """
        from bert_tf.inference.sparse_extractor import SparseExtractor, largest_tokens

        if not isinstance(self._extractor, SparseExtractor):
            raise ValueError("`decode` requires a sparse encoder. This one has dense embeddings, which have no tokens.")
        return largest_tokens(vectors, self._extractor, top_k)

    @property
    def token_counts(self) -> TokenCountLog:
        return self._extractor.token_counts

    @property
    def width(self) -> int:
        """D, the dimension of the embeddings."""
        return self._extractor.width

    def _prepared(self, texts, prompt):
        texts = [prompt + text for text in text_list(texts)]
        return [text.lower() for text in texts] if self._lower else texts


def _sparse_recipe_of(path, kind, sparse, options):
    """Returns how a model computes sparse embeddings; None if they are dense."""
    directory = directory_of(path)
    recipe = read_sparse_config(directory, kind)
    if not (recipe or sparse):
        return None
    if recipe is None and (os.path.exists(os.path.join(directory, MODULES)) or task_in(directory) is not None):
        raise ValueError(
            f"`sparse` requires a SparseEncoder or a masked LM. {path} is a model for another task; remove `sparse`, "
            "or pass such a model."
        )
    for name in ("layers", "pooling", "normalize", "dim"):
        if getattr(options, name) is not None:
            raise ValueError(f"`{name}` requires dense embeddings, and those of {path} are sparse. Remove it.")
    return recipe or SpladeConfig(max_seq_length=tokenizer_length(directory))


def _open_sparse(path, recipe, options, max_active_dims):
    from bert_tf.inference.sparse_extractor import SpladeExtractor, StaticExtractor  # dense embeddings need no SciPy

    given = options.max_seq_length, options.do_lower_case, max_active_dims
    if isinstance(recipe, StaticEmbeddingConfig):
        return StaticExtractor(path, recipe, *given)
    return SpladeExtractor(os.path.join(path, recipe.folder) if recipe.folder else path, recipe, *given)


def recipe_of(path: str, options: EncodeOptions = DEFAULT_ENCODING) -> PoolingConfig:
    """Returns how a model computes embeddings, from its directory and the options.

    Raises:
        ValueError: the directory asks for something unsupported.
    """
    directory = directory_of(path)
    recipe = read_recipe(directory) or _read_task_recipe(directory) or PoolingConfig()
    pooling = options.pooling
    changes = {
        "layers": options.layers,
        "poolings": pooling and ((pooling,) if isinstance(pooling, str) else tuple(pooling)),
        "normalize": options.normalize,
        "max_seq_length": options.max_seq_length,
        "dim": options.dim,
    }
    return dataclasses.replace(recipe, **{name: value for name, value in changes.items() if value is not None})


def _read_task_recipe(directory):
    """Returns the recipe of a model that was trained for embeddings; None for others."""
    if task_in(directory) is None:
        return None
    trained = read_task(directory, EncoderConfig.load(directory))
    recipe = trained.task.recipe
    return recipe and dataclasses.replace(recipe, max_seq_length=trained.max_seq_length)


def prompt_of(recipe: PromptConfig, options: EncodeOptions, kind: str | None = None) -> str:
    """Returns the prompt for every text.

    Args:
        recipe: how the model computes embeddings.
        options: may determine the prompt.
        kind: as in `PoolingConfig.prompt_name_for`, for options that do not.

    Raises:
        ValueError: there is no prompt of that name, or both options are given.
    """
    if options.prompt is not None and options.prompt_name is not None:
        raise ValueError("`prompt` and `prompt_name` cannot be combined. Remove one of the two.")
    if options.prompt is not None:
        return options.prompt
    name = recipe.prompt_name_for(kind) if options.prompt_name is None else options.prompt_name
    if name is not None and name not in recipe.prompts:
        known = ", ".join(recipe.prompts) or "none"
        raise ValueError(
            f"`prompt_name` must be one of the model's prompts: {known}; got {name!r}; to use other text, pass "
            "it as `prompt`."
        )
    return recipe.prompts[name] if name is not None else ""


def with_prompt(path: str, options: EncodeOptions, kind: str | None) -> EncodeOptions:
    """Returns the options with the text of the prompt for a kind of text; arguments and errors as in `prompt_of`.

    For queries and documents, logs a warning about settings of the model that bert_tf does not apply.
    """
    recipe = recipe_of(path, options)
    prompt = prompt_of(recipe, options, kind)
    if kind:
        warn_of_similarity(path, recipe.similarity, recipe.normalize)
        if options.prompt is None and options.prompt_name is None:
            warn_of_other_prompts(path, recipe.other_prompts, "Select one with `prompt_name`")
    return dataclasses.replace(options, prompt=prompt, prompt_name=None)


def count_unpooled(tokenizer, prompt: str, recipe: PoolingConfig) -> int:
    """Returns the number of tokens at the start of a sequence that are not pooled: a prompt's, where the model asks."""
    if not prompt or recipe.include_prompt:
        return 0
    return len(tokenizer.template.before) + int(tokenizer.tokenize([prompt]).row_lengths()[0])


def identity_of(path: str, options: EncodeOptions) -> dict[str, Any]:
    """Returns what determines the embeddings, as JSON values: file hashes, and the recipe except for prompts."""
    recipe = recipe_of(path, options)
    values = dataclasses.asdict(recipe)
    for name in ("prompts", "default_prompt", "folder", "similarity"):
        del values[name]
    values["poolings"], values["do_lower_case"] = list(recipe.poolings), options.do_lower_case
    directory = directory_of(path)
    values["steps"] = [
        step and {**dataclasses.asdict(step), "weights": hash_weights(os.path.join(directory, step.folder))}
        for step in recipe.steps
    ]
    encoder = os.path.join(path, recipe.folder) if recipe.folder else path
    return {**hash_model(encoder, do_lower_case=options.do_lower_case), **values}


def hash_model(
    path: str | os.PathLike,
    config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> dict[str, str]:
    """Returns hashes of a model's weights, and of its tokenizer and configuration; arguments as in `bert_tf.load`."""
    digest = hash_weights(path)
    described = load_description([path], config_file, vocab_file, do_lower_case)
    return {"weights": digest, "tokenizer or configuration": described.digest()}


def _check_dim(directory, dim, width):
    """Raises ValueError if `dim` is more than the model's `width`, and warns if it was not trained for that."""
    if dim > width:
        raise ValueError(f"`dim` must be at most {width}, the number of dimensions of the model; got {dim}.")
    trained = (task_in(directory) or {}).get("matryoshka_dims")
    if trained is not None and dim not in (trained or [width]):
        logging.warning(
            "%s was not trained for embeddings of %d dimensions (matryoshka_dims: %s); they may be much worse.",
            *(directory, dim, ",".join(map(str, trained)) or "none"),
        )


def make_finish(
    directory: str, steps: Sequence[Dense | None], dim: int | None
) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns the in-graph function that is applied to pooled vectors, or None; arguments as in `PoolingConfig`.

    Raises:
        ValueError: the weights of a step are missing or damaged, or its activation is not supported.
    """
    functions = [_load_dense(directory, step) if step else lambda vectors: tf.math.l2_normalize(vectors, -1)
                 for step in steps]  # fmt: skip
    if dim is not None:
        functions.append(lambda vectors: vectors[:, :dim])
    if not functions:
        return None
    return lambda vectors: functools.reduce(lambda values, function: function(values), functions, vectors)


def _load_dense(directory, dense):
    folder = os.path.join(directory, dense.folder)
    if dense.activation not in _ACTIVATIONS:
        raise ValueError(
            f"The activation of a Dense module must be one of {', '.join(_ACTIVATIONS)}; {folder} has "
            f"{dense.activation:.100}, which is not supported."
        )
    form, path = locate(folder)
    file = OPENERS[form](path)
    shape = file.shapes.get(_WEIGHT, ())
    shapes = {_WEIGHT: (dense.width, *shape[1:2])} | ({_BIAS: (dense.width,)} if dense.bias else {})
    shapes |= {_RESIDUAL: shapes[_WEIGHT]} if dense.residual and shape[1:2] != (dense.width,) else {}
    if file.shapes != shapes or len(shape) != 2:
        raise ValueError(
            f"{path} must contain {' and '.join(shapes)} of a linear map to {dense.width} dimensions; it has "
            f"{str(file.shapes):.300}. Copy it again."
        )
    arrays = {name: file.read(name).astype(np.float32) for name in shapes}
    for name, array in arrays.items():
        check_finite(array, name, path)
    weight, bias, activation = arrays[_WEIGHT], arrays.get(_BIAS), _ACTIVATIONS[dense.activation]

    def call(vectors):
        if vectors.shape[-1] != weight.shape[1]:
            raise ValueError(
                f"`pooling` and `layers` must produce the {weight.shape[1]} dimensions that {path} expects, not "
                f"{vectors.shape[-1]}. Remove them."
            )
        mapped = tf.matmul(vectors, weight, transpose_b=True)
        mapped = activation(mapped if bias is None else mapped + bias)
        if dense.residual:
            mapped += tf.matmul(vectors, arrays[_RESIDUAL], transpose_b=True) if _RESIDUAL in arrays else vectors
        return mapped

    return call
