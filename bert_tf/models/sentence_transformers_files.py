"""Reads and writes the settings of sentence-transformers directories: modules, poolings, prompts.

modules.json                        Transformer, Pooling, then Dense and Normalize, each with its directory
sentence_bert_config.json           max_seq_length, do_lower_case
1_Pooling/config.json               the pooling modes
2_Dense/config.json                 the sizes of a linear map, its activation, whether its input is added
config_sentence_transformers.json   prompts, the default prompt, truncate_dim, the similarity function
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

from bert_tf.models.config_files import warn_of_unknown_keys
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_list, read_object
from bert_tf.utils.names import POOLINGS

MODULES, PROMPTS = "modules.json", "config_sentence_transformers.json"
# The first one that exists is read; a directory has one, named after its kind of model.
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Kind of text -> names of its prompt. The first that a model has is used, in the order of `encode_query` and
# `encode_document` of sentence-transformers. (In its version 5, every model has a "document", which may be empty.)
PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
SPLADE = "SpladePooling"  # the module of a sparse encoder
_REMEDY = "copy it again from the sentence encoder"
_LONGEST = 10**6  # a tokenizer_config.json without a maximum length has 10 ** 30
# Theirs -> ours, in the order in which older files, which have a switch for each, concatenate the vectors.
MODES = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len",
         "weightedmean": "weighted_mean", "lasttoken": "last_token"}  # fmt: skip
SWITCHES = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
            "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len", "pooling_mode_weightedmean_tokens": "weighted_mean",
            "pooling_mode_lasttoken": "last_token"}  # fmt: skip
# For each file, the keys that are read or have no effect, and key -> the supported values.
_OF_MODULES = ("idx", "name", "path", "type", "kwargs")  # the last names what a caller may pass
_ARGUMENTS = ("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs")
USUAL_TRANSFORMER = {"processing_kwargs": (None, {}), "query_length": (None,), "document_length": (None,),
                     "query_expansion": (None,), "tokenizer_name_or_path": (None,),
                     **dict.fromkeys(_ARGUMENTS, (None, {}))}  # fmt: skip
_OF_TRANSFORMER = (
    ("max_seq_length", "do_lower_case", "transformer_task", "unpad_inputs"),
    {"module_output_name": (None, "token_embeddings"),
     "modality_config": (None, {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
     **USUAL_TRANSFORMER},
)  # fmt: skip
_OF_POOLING = (("pooling_mode", *SWITCHES, "include_prompt", "embedding_dimension", "word_embedding_dimension"), {})
_OF_VECTORS = {"module_input_name": (None, "sentence_embedding"), "module_output_name": (None, "sentence_embedding")}
_OF_DENSE = (("in_features", "out_features", "bias", "activation_function", "use_residual"), _OF_VECTORS)
_OF_NORMALIZE = ((), _OF_VECTORS)
_OF_PROMPTS = (
    ("prompts", "default_prompt_name", "similarity_fn_name", "__version__", "truncate_dim"),
    {"model_type": (None, "SentenceTransformer")},
)


@dataclasses.dataclass(frozen=True)
class Dense:
    """Linear map with an activation after the pooling.

    Attributes:
        folder: directory of its weights.
        width: output width.
        bias: whether it has a bias.
        activation: last component of the name of its torch class: "Tanh".
        residual: whether its input is added to its output, by a map without a bias if their widths differ.
    """

    folder: str
    width: int
    bias: bool
    activation: str
    residual: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class PromptConfig:
    """Settings of what a sentence encoder reads: prompts and length.

    Attributes:
        max_seq_length: maximum sequence length in tokens. If None, the model's maximum.
        lower: whether the text is lowercased before tokenization.
        prompts: name -> the text that is prepended.
        default_prompt: name of the prompt to use by default. If None, no prompt is used.
        folder: directory of the encoder's files.
    """

    max_seq_length: int | None = None
    lower: bool = False
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None
    folder: str = ""

    def prompt_name_for(self, kind: str | None) -> str | None:
        """Returns the name of the prompt for a kind of text, or None if there is none.

        Args:
            kind: a key of `PROMPT_NAMES`, whose own prompt precedes the default prompt. If None, the default prompt.
        """
        return next((name for name in PROMPT_NAMES.get(kind, ()) if name in self.prompts), self.default_prompt)

    def prompt_for(self, kind: str | None) -> str:
        """Returns the text of that prompt, or "" if there is none."""
        name = self.prompt_name_for(kind)
        return "" if name is None else self.prompts[name]

    @property
    def other_prompts(self) -> tuple[str, ...]:
        """The names of the prompts, if none of them is for queries, documents or all texts; otherwise none."""
        is_used = any(self.prompt_name_for(kind) is not None for kind in PROMPT_NAMES)
        return () if is_used else tuple(name for name, prompt in self.prompts.items() if prompt)


@dataclasses.dataclass(frozen=True)
class PoolingConfig(PromptConfig):
    """Settings that turn a text into an embedding: layers, poolings and prompts.

    Attributes:
        layers: the layers that are pooled, one of `names.LAYERS`.
        poolings: some of `names.POOLINGS`; the vectors of several are concatenated.
        normalize: whether the vector is divided by its length at the end.
        include_prompt: whether the tokens of a prompt are pooled too.
        dim: number of leading dimensions to keep, before a division by the length at the end. If None, all.
        steps: the steps after pooling: a `Dense`, or None for a division by the length; `normalize` follows them.
        similarity: how embeddings are compared according to the model's files; bert_tf compares by "cosine".
    """

    layers: str = "last"
    poolings: tuple[str, ...] = ("mean",)
    normalize: bool = False
    include_prompt: bool = True
    dim: int | None = None
    steps: tuple[Dense | None, ...] = ()
    similarity: str = "cosine"


def read_recipe(directory: str) -> PoolingConfig | None:
    """Reads the settings of a sentence-transformers directory; returns None if it has no modules.json.

    Raises:
        ValueError: a file is damaged or has unsupported settings; the message names it.
    """
    path = os.path.join(directory, MODULES)
    if not os.path.exists(path):
        return None
    (kind, folder), *rest = read_modules(path)
    if is_sparse_encoder(directory):
        raise ValueError(
            f"{directory} is a SparseEncoder, which has sparse embeddings instead of dense ones. Use it with "
            "`bert_tf.SentenceEncoder`, `bert-tf predict` or `bert-tf export`."
        )
    if model_type_of(directory) == "CrossEncoder":
        check_single_module(path)
        raise ValueError(
            f"{directory} is a CrossEncoder, which scores pairs of texts and has no embeddings. Use it as a reranker."
        )
    if kind != "Transformer" or not rest or rest[0][0] != "Pooling":
        there = " ".join([kind, *(name for name, _ in rest)])
        raise ValueError(
            f"{path} must begin with a Transformer and a Pooling; got {there}, which bert_tf does not support."
        )
    steps = []
    for kind, module in rest[1:]:
        if kind not in _STEPS:
            raise _unknown(path, kind)
        steps.append(_STEPS[kind](directory, module))
    normalize = bool(steps) and steps[-1] is None
    steps = tuple(steps[:-1] if normalize else steps)
    parts = _of_transformer(os.path.join(directory, folder)), _of_pooling(directory, rest[0][1]), _prompts(directory)
    return PoolingConfig(**parts[0] | parts[1] | parts[2], normalize=normalize, steps=steps, folder=folder)


def model_type_of(directory: str) -> str | None:
    """Returns the class of a model, as named in its files: "SentenceTransformer", "CrossEncoder", "SparseEncoder".

    Returns:
        The class, or None if they have none, as those of versions before 5 and of other software.
    """
    path = os.path.join(directory, PROMPTS)
    return read_sentence_settings(path).get("model_type") if os.path.exists(path) else None


def is_sparse_encoder(directory: str) -> bool:
    """Returns whether a directory has modules of sentence-transformers that compute sparse embeddings, as SPLADE's."""
    path = os.path.join(directory, MODULES)
    if not os.path.exists(path):
        return False
    return model_type_of(directory) == "SparseEncoder" or any(kind == SPLADE for kind, _ in read_modules(path))


@functools.cache
def warn_of_similarity(path: str, similarity: str, normalize: bool):
    """Logs, once per model, that bert_tf does not use the similarity function in its files.

    Args:
        path: the model, for the message.
        similarity: as in `PoolingConfig`.
        normalize: whether embeddings have length 1, with which a dot product is a cosine.
    """
    if similarity == "cosine" or (similarity == "dot" and normalize):
        return
    logging.warning(
        "%s has similarity_fn_name=%s, but indexes, searches, training and evaluation compare embeddings by cosine "
        "similarity, which may rank texts differently. Use a model trained for cosine similarity, or write the "
        "embeddings to a file with `bert-tf embed` (`output_file`) and compare them yourself.",
        *(path, similarity),
    )


@functools.cache
def warn_of_other_prompts(path: str, names: tuple[str, ...], remedy: str):
    """Logs, once per model, that its prompts are not added, because their names do not indicate their purpose.

    Args:
        path: the model, for the message.
        names: `other_prompts` of its recipe; if empty, nothing is logged.
        remedy: what to pass.
    """
    if names:
        known = ", ".join(name for names_of_kind in PROMPT_NAMES.values() for name in names_of_kind)
        logging.warning(
            "%s has the prompts %s, but no default prompt and none with one of the names %s. No prompt is added to "
            "queries or documents. %s, or rename the prompts in %s.",
            *(path, ", ".join(names), known, remedy, PROMPTS),
        )


def check_single_module(path: str):
    """Raises ValueError if the modules.json of a CrossEncoder lists several modules, such as Pooling and Dense."""
    if len(modules := read_modules(path)) > 1:
        raise ValueError(
            "CrossEncoders with several modules are not supported, only those that are a text classifier with one "
            f"output; got {path}, which lists {', '.join(kind for kind, _ in modules)}; train a supported one with "
            "`bert-tf train reranker`."
        )


def read_modules(path: str) -> list[tuple[str, str]]:
    """Returns (class, directory) of each module in modules.json; the class without its package.

    Raises:
        ValueError: the file is damaged, or a class is not one of sentence-transformers.
    """
    folders(path)
    modules = read_list(path, "a list of modules", _REMEDY)
    if unknown := sorted({key for module in modules for key in module} - {*_OF_MODULES}):
        warn_of_unknown_keys(path, tuple(unknown))
    described = [(module.get("type"), module["path"]) for module in modules]
    for kind, _ in described:
        if not isinstance(kind, str) or not kind.startswith("sentence_transformers."):
            raise _unknown(path, kind)
    return [(kind.rpartition(".")[2], folder) for kind, folder in described] or [("nothing", "")]


def folders(path: str) -> list[str]:
    """Returns the directories named in modules.json.

    Raises:
        ValueError: it is not a list of modules, or a module is not next to it.
    """
    modules = read_list(path, "a list of modules in JSON", _REMEDY)
    names = [module.get("path") if isinstance(module, dict) else None for module in modules]
    strange = [name for name in names if not isinstance(name, str) or os.path.basename(name) != name
               or name in (".", "..") or "\0" in name]  # fmt: skip
    if strange:
        raise ValueError(
            f"The modules in {path} must each have a `path` next to it; got the path {brief(strange[0])}."
        )
    return [name for name in names if name]


def _unknown(path, kind):
    return ValueError(
        f"The modules in {path} must be Transformer, Pooling, Dense or Normalize of sentence-transformers; got "
        f"{brief(kind)}, which bert_tf does not support."
    )


def _of_transformer(directory):
    path = transformer_file(directory)
    values = checked_settings(path, _OF_TRANSFORMER) if path else {}
    task = typed_value(path, values, "transformer_task", str, "feature-extraction")
    if task != "feature-extraction":
        raise ValueError(
            f"{path} must describe an encoder; got transformer_task={task!r}, which bert_tf does not support."
        )
    length = typed_value(path, values, "max_seq_length", int, tokenizer_length(directory))
    return {"max_seq_length": length, "lower": typed_value(path, values, "do_lower_case", bool, False)}


def transformer_file(directory: str) -> str | None:
    """Returns the path of the first of TRANSFORMER_FILES in a directory; None if there is none."""
    return next((p for name in TRANSFORMER_FILES if os.path.exists(p := os.path.join(directory, name))), None)


def tokenizer_length(directory: str) -> int | None:
    """Returns the maximum sequence length in tokenizer_config.json; None if it has none."""
    path = os.path.join(directory, "tokenizer_config.json")
    longest = read_sentence_settings(path).get("model_max_length") if os.path.exists(path) else None
    return int(longest) if isinstance(longest, int | float) and longest < _LONGEST else None


def _of_pooling(directory, folder):
    path = os.path.join(directory, folder, "config.json")
    values = module_settings(path, _OF_POOLING)
    modes = values.get("pooling_mode")
    if modes is None:
        theirs = {name: mode for mode, name in MODES.items()}
        modes = [theirs[name] for key, name in SWITCHES.items() if values.get(key)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    if not isinstance(modes, list) or not modes or not all(isinstance(m, str) and m in MODES for m in modes):
        raise ValueError(
            f"{path} must use supported poolings: {', '.join(MODES)}; got pooling_mode={brief(modes)}; to use one of "
            "these instead, set `pooling`."
        )
    return {"poolings": tuple(MODES[mode] for mode in modes),
            "include_prompt": typed_value(path, values, "include_prompt", bool, True)}  # fmt: skip


def _prompts(directory):
    path = os.path.join(directory, PROMPTS)
    values = checked_settings(path, _OF_PROMPTS) if os.path.exists(path) else {}
    prompts, default = named_prompts(path, values)
    dim = typed_value(path, values, "truncate_dim", int, None)
    if dim is not None and dim < 1:
        raise ValueError(f"truncate_dim in {path} must be 1 or more; got {dim}.")
    similarity = typed_value(path, values, "similarity_fn_name", str, PoolingConfig.similarity)
    return {"prompts": prompts, "default_prompt": default, "dim": dim, "similarity": similarity}


def named_prompts(path: str, values: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """Returns {name: text} of the prompts in PROMPTS, and the name of the default one or None.

    Args:
        path: path of the file.
        values: its contents.

    Raises:
        ValueError: a prompt is not a text, or the default one is missing.
    """
    prompts = typed_value(path, values, "prompts", dict, {})
    prompts = {name: prompt for name, prompt in prompts.items() if prompt is not None}
    default = typed_value(path, values, "default_prompt_name", str, None)
    if not all(isinstance(prompt, str) for prompt in prompts.values()) or default not in (None, *prompts):
        raise ValueError(
            f"{path} must have a string for each of its prompts, including {default}, the default; got "
            f"{brief(prompts)}."
        )
    return prompts, default


def _dense(directory, folder):
    path = os.path.join(directory, folder, "config.json")
    values = module_settings(path, _OF_DENSE)
    width, bias = typed_value(path, values, "out_features", int, 0), typed_value(path, values, "bias", bool, True)
    kind = typed_value(path, values, "activation_function", str, "torch.nn.modules.activation.Tanh")
    package, _, activation = kind.rpartition(".")
    if package not in ("torch.nn", "torch.nn.modules.activation", "torch.nn.modules.linear"):
        activation = kind  # a custom one, rejected by its full name where activations are looked up
    return Dense(folder, width, bias, activation, typed_value(path, values, "use_residual", bool, False))


def _normalize(directory, folder):
    path = os.path.join(directory, folder, "config.json")
    if folder and os.path.exists(path):  # versions before 6 write no file
        module_settings(path, _OF_NORMALIZE)


_STEPS = {"Dense": _dense, "Normalize": _normalize}


def module_settings(path: str, keys: tuple[Iterable[str], Mapping[str, tuple[Any, ...]]]) -> dict[str, Any]:
    """Reads the settings of a module, all of which must be known, because each of them may change the embeddings.

    Args: as `checked_settings`, which raises the same errors.
    """
    values, known = read_sentence_settings(path), {*keys[0], *keys[1]}
    if unknown := sorted(values.keys() - known):
        raise ValueError(
            f"{path} must have no other keys than {', '.join(sorted(known))}; got {brief(unknown[0])}; remove the key "
            "to get the model's outputs without it."
        )
    return checked_settings(path, keys)


def checked_settings(path: str, keys: tuple[Iterable[str], Mapping[str, tuple[Any, ...]]]) -> dict[str, Any]:
    """Reads a file of settings; rejects those that would give other outputs, and logs unknown ones.

    Args:
        path: path of the file.
        keys: the keys that are read or have no effect, and {key: the supported values}.

    Raises:
        ValueError: the file is damaged, or a value is not supported.
    """
    values, (known, computed) = read_sentence_settings(path), keys
    for key, allowed in computed.items():
        if key in values and values[key] not in allowed:
            must = "absent" if allowed[-1] is None else f"absent or {brief(allowed[-1])}, the only supported value"
            raise ValueError(
                f"{key} in {path} must be {must}; got {brief(values[key])}; remove the key to get the model's outputs "
                "without it."
            )
    if unknown := sorted(values.keys() - {*known, *computed}):
        warn_of_unknown_keys(path, tuple(unknown))
    return values


def read_sentence_settings(path: str) -> dict[str, Any]:
    """Reads a file of settings; raises ValueError if it is missing or damaged."""
    return read_object(path, "the settings of a sentence encoder in JSON", _REMEDY)


def typed_value(path: str, values: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    """Returns a value of a file of settings, or the default if it is missing or null; ValueError for another type."""
    value = values.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{key} in {path} must be of type {kind.__name__}; got {brief(value)}.")
    return value


def pooling_settings(poolings: tuple[str, ...], width: int, include_prompt: bool = True) -> dict:
    """Returns the contents of 1_Pooling/config.json for poolings, in the format that most versions read.

    Args:
        poolings: some of `names.POOLINGS`.
        width: width of the encoder.
        include_prompt: whether the tokens of a prompt are pooled too.
    """
    each = [part for name in poolings for part in _PARTS.get(name, (name,))]
    values = {"word_embedding_dimension": width}
    in_order = [name for name in SWITCHES.values() if name in each]
    if in_order == each:
        values |= {key: name in each for key, name in SWITCHES.items()}
    else:  # only versions from 5.0 on support a custom order
        theirs = {name: mode for mode, name in MODES.items()}
        values["pooling_mode"] = [theirs[name] for name in each]
    return values | {"include_prompt": include_prompt}


_PARTS = {"mean_max": ("mean", "max")}
assert {*MODES.values(), *_PARTS} == set(POOLINGS)
