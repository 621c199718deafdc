"""Reads LoRA adapters of Hugging Face's PEFT: adapter_config.json, and adapter_model.safetensors or .bin."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.weight_files import SafetensorsFile, TorchBinFile, check_finite
from bert_tf.models.config_files import ADAPTER_FILES, warn_of_unknown_keys
from bert_tf.models.lora import NAMES, Lora
from bert_tf.utils.files import brief
from bert_tf.utils.json_files import read_object

CONFIG, WEIGHTS, _OLD_WEIGHTS = ADAPTER_FILES
PREFIX = "base_model.model."
LORA_ENDS = tuple(f".{name}.weight" for name in NAMES)
# PEFT settings with which an adapter would behave differently from `merged`.
_REFUSED = ("use_rslora", "use_dora", "fan_in_fan_out", "rank_pattern", "alpha_pattern", "layer_replication",
            "megatron_config", "lora_bias", "arrow_config", "alora_invocation_tokens", "use_qalora",
            "kasa_config", "monteclora_config", "use_bdlora")  # fmt: skip
# Values of init_lora_weights that leave the base model as it is. With the others (pissa, olora, corda, loftq), adapters
# belong to a base from which their initial product was subtracted, or which was quantized.
_INITIAL = (None, True, False, "gaussian", "eva", "orthogonal")
# Settings of PEFT 0.21 that are read here, or without effect on a finished adapter: what has adapters is in the file.
_KNOWN = frozenset(
    {"peft_type", "r", "lora_alpha", "auto_mapping", "task_type", "init_lora_weights", "base_model_name_or_path",
     "bias", "corda_config", "ensure_weight_tying", "eva_config", "exclude_modules", "inference_mode",
     "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config", "megatron_core",
     "modules_to_save", "peft_version", "qalora_group_size", "revision", "runtime_config", "target_modules",
     "target_parameters", "trainable_token_indices", "velora_config", *_REFUSED}
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PeftAdapters:
    """The adapters of a directory, and the heads that were trained with them.

    Attributes:
        path: path of their weights.
        pairs: kernel's path -> {"lora_A": [in, r], "lora_B": [r, out]}.
        others: our path -> array: the other weights, which take the place of the model's.
        rank, scale: r, and the factor of A B.
    """

    path: str
    pairs: Mapping[str, Mapping[str, np.ndarray]]
    others: Mapping[str, np.ndarray]
    rank: int
    scale: float

    def check(self, shapes: Mapping[str, tuple[int, ...]], model: str):
        """Checks that the adapters belong to a model.

        Args:
            shapes: our path -> shape, of the model's weights.
            model: the path of the model, for the message.

        Raises:
            ValueError: an adapter is incomplete, or the model has no kernel of its shape.
        """
        there = {name: _shape_of(name, pair, self.rank) for name, pair in self.pairs.items()}
        there |= {name: array.shape for name, array in self.others.items()
                  if name.startswith("bert/") and name in shapes}  # fmt: skip
        for name, shape in there.items():
            if shapes.get(name) != shape:
                raise ValueError(
                    f"The adapter does not match the model: {self.path} has {shape or 'an incomplete one'} for {name}, "
                    f"but the model has {shapes.get(name, 'nothing')}. Pass the checkpoint that the adapter was "
                    f"trained on as `model`, instead of {model}."
                )

    def merge_into(self, path: str, kernel: np.ndarray) -> np.ndarray:
        """Returns the kernel at our `path` with its adapter merged, float32 [in, out]."""
        return merged(kernel, *(self.pairs[path][name] for name in NAMES), self.scale)


def merged(kernel: np.ndarray, a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    """Returns the kernel with its adapter merged, kernel + scale * a b: float32 [in, out], rounded once."""
    return (kernel + scale * (a.astype(np.float64) @ b)).astype(np.float32)


def adapter_beside(path: str | os.PathLike) -> str | None:
    """Returns the directory `path` if it holds adapters; None for other directories, and for files, which are read
    without them."""
    path = os.fspath(path)
    return path if any(os.path.isfile(os.path.join(path, name)) for name in ADAPTER_FILES) else None


def files_of(directory: str) -> list[str]:
    """Returns the paths of a directory's adapter files: the configuration and the weights.

    Raises:
        ValueError: one of them is missing.
    """
    weights = [os.path.join(directory, name) for name in (WEIGHTS, _OLD_WEIGHTS)]
    paths = [os.path.join(directory, CONFIG), next(filter(os.path.isfile, weights), weights[0])]
    for path in paths:
        if not os.path.isfile(path):
            raise ValueError(
                f"LoRA adapters must have {CONFIG} and {WEIGHTS}. {directory} lacks {os.path.basename(path)}; copy it "
                "again, or remove the other file to use the model without adapters."
            )
    return paths


def check_base(directory: str, weights: str):
    """Checks that adapters belong to the weights in the same directory, which may also be weights with them merged.

    Args:
        directory: with both.
        weights: path of the model's weights.

    Raises:
        ValueError: adapter_config.json names another model as theirs.
    """
    config, _ = files_of(directory)
    base = _read_settings(config)["base_model_name_or_path"]
    if not base or os.path.realpath(base) in (os.path.realpath(directory), os.path.realpath(weights)):
        return
    raise ValueError(
        f"{directory} contains weights and LoRA adapters, but base_model_name_or_path in {config} names another model, "
        f"{brief(base)}. If the weights do not include the adapters yet, merge them with bert-tf model edit: "
        f"`model={weights}`, `adapter={directory}`. If they do, pass {weights}, or remove the adapter files."
    )


def read_peft(directory: str, model_type: str, tied: bool) -> PeftAdapters:
    """Reads the adapters of a directory.

    Args:
        directory: PEFT directory, written by bert_tf or another library.
        model_type, tied: of their model: its family, and whether its output layer is tied to the word embeddings.

    Raises:
        ValueError: files are missing or damaged, or the adapters are of another kind.
    """
    config, path = files_of(directory)
    settings = _read_settings(config)
    file = SafetensorsFile(path) if path.endswith(".safetensors") else TorchBinFile(path)
    pairs, others = _sorted(file, path, family_mappings.hugging_face(model_type, tied, _classes(settings)))
    return PeftAdapters(path, pairs, others, settings["r"], settings["lora_alpha"] / settings["r"])


def _read_settings(path):
    values = read_object(path, "the configuration of an adapter in JSON", "use a file written by PEFT or bert_tf")
    if values.get("peft_type") != "LORA":
        kind = brief(values.get("peft_type"))
        raise ValueError(f"{path} must describe a LoRA adapter, peft_type LORA; got {kind}.")
    for name in _REFUSED:
        if values.get(name):
            raise ValueError(f"{path} must not set {name}, which changes what an adapter computes; got "
                             f"{brief(values[name])}; merge this adapter with PEFT.")  # fmt: skip
    if values.get("init_lora_weights") not in _INITIAL:
        raise ValueError(
            f"{path} must have init_lora_weights true, false, gaussian, eva or orthogonal, because other values change "
            f"the base model of an adapter; got {brief(values['init_lora_weights'])}; merge this adapter with "
            "PEFT."
        )
    if unknown := sorted(values.keys() - _KNOWN):
        warn_of_unknown_keys(path, tuple(unknown))
    try:
        Lora(values.get("r"), values.get("lora_alpha"))
    except ValueError as error:
        raise ValueError(f"{path}, r and lora_alpha: {error}") from error
    base = values.get("base_model_name_or_path")
    if not isinstance(base, str | None):
        raise ValueError(f"base_model_name_or_path in {path} must be a name or a path; got {brief(base)}.")
    return {"base_model_name_or_path": None, **values}


def _classes(settings):
    """Returns the names of Transformers' class in the adapter's configuration: of the model, or of a kind of task."""
    mapping = settings.get("auto_mapping")
    named = mapping.get("base_model_class") if isinstance(mapping, dict) else None
    kind = "ForQuestionAnswering" if settings.get("task_type") == "QUESTION_ANS" else None
    return [name for name in (named, kind) if isinstance(name, str)]


def _sorted(file, path, weight_mapping):
    """Returns ({kernel's path: {"lora_A": [in, r], "lora_B": [r, out]}}, {our path: array} of the other weights)."""
    plain = {}  # name of a kernel, or of another weight, in the family's files -> names in this one
    for name in file.shapes:
        end = next((end for end in LORA_ENDS if name.endswith(end)), "")
        whole = name.removeprefix(PREFIX).removesuffix(end) + (".weight" if end else "")
        plain.setdefault(whole, []).append(name)
    try:
        groups = weight_mapping.sort(plain)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if groups.unknown or not file.shapes or not all(name.startswith(PREFIX) for name in file.shapes):
        raise ValueError(
            f"{path} must contain only adapters and heads that the model family supports. It also contains "
            f"{(groups.unknown or list(file.shapes))[:5]}."
        )
    pairs, others = {}, {}
    for ours, theirs in groups.known.items():
        for name in plain[theirs]:
            array = np.asarray(file.read(name), np.float32)
            check_finite(array, name, path)
            read = weight_mapping.transform(ours).to_ours
            if name.endswith(LORA_ENDS[0]):  # the same for all weights of ours in one of theirs
                pairs.setdefault(ours, {})[NAMES[0]] = array.T
            elif name.endswith(LORA_ENDS[1]):
                pairs.setdefault(ours, {})[NAMES[1]] = read(array)
            else:
                others[ours] = read(array)
    return pairs, others


def _shape_of(name, pair, rank):
    """Returns the kernel shape that an adapter is for; None if it is incomplete or for something else."""
    if set(pair) != set(NAMES) or not name.endswith("/kernel"):
        return None
    a, b = (pair[name] for name in NAMES)
    return (a.shape[0], b.shape[1]) if a.shape[1:] == b.shape[:1] == (rank,) else None
