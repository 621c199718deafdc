"""A trained model that computes from texts what its export would, without an export."""

import dataclasses
import hashlib
import json
import os
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf.checkpoints.loading import load_description
from bert_tf.export.serving_module import ServingModule
from bert_tf.export.trained_model import load_trained_model
from bert_tf.inference.batch_prediction.exported_model import TablePredictor
from bert_tf.inference.text_model import TextInput, TextModel
from bert_tf.models.config_files import CONFIG_FILES, check_not_adapters, check_not_gliner, task_in
from bert_tf.serving.client.requests import DEFAULT, PAIR, order_of
from bert_tf.serving.server.version_folders import SAVED_MODEL, explain_no_versions
from bert_tf.tasks.registry import stated_task
from bert_tf.utils.names import TOKEN_COUNTS
from bert_tf.utils.token_counts import TokenCountLog


def load_trained_text_model(path: str, pairs: bool = False) -> TextModel:
    """Loads a trained model, or a masked LM, and traces the function that an export would contain.

    Args:
        path: directory of the model.
        pairs: whether a Hugging Face text classifier, whose files do not state it, reads text pairs.

    Raises:
        ValueError: there is no trained model in the directory, or its files are not complete.
    """
    return _traced(path, _load(path, pairs))[0]


def check_has_model(path: str, parameter: str = "path"):
    """Raises ValueError if there is no trained model in the directory that `parameter` names, which has no export."""
    if any(os.path.exists(os.path.join(path, name)) for name in CONFIG_FILES):
        return
    check_not_adapters(path)
    is_folder = os.path.isdir(path)
    found = explain_no_versions(path) or "which has none of these" if is_folder else "which is not a directory"
    raise ValueError(
        f"`{parameter}` must be a directory with {SAVED_MODEL}, with numbered versions of it, or with a trained model "
        f"({' or '.join(CONFIG_FILES)}); got {path}, {found}."
    )


def _load(path, pairs) -> ServingModule:
    check_not_gliner(path)
    if os.path.isdir(path):
        check_has_model(path)
    trained = stated_task(path, load_description([path]))
    if trained and pairs and task_in(path) is None and trained.task.takes_pairs:
        trained = dataclasses.replace(trained, text_inputs=PAIR)
    return load_trained_model(path, trained).served() if trained else _fill_mask_model(path)


def _fill_mask_model(path):
    """Returns the served masked LM; raises ValueError if the model has no head for that either."""
    from bert_tf.checkpoints.readers import open_checkpoint
    from bert_tf.inference.fill_mask import MASKED_LM_HEAD, Filler

    if MASKED_LM_HEAD not in open_checkpoint(path).names:
        raise ValueError(
            f"{path} does not state what it predicts: it has no task.json, as the fine-tuning commands write, no "
            "masked-LM head, and its configuration names no Transformers class of a supported task. If it is a plain "
            "encoder, fine-tune it, for example with `bert-tf run_classifier`, or compute embeddings with "
            "`bert_tf.SentenceEncoder`."
        )
    return Filler(path).served()


def _traced(path, served):
    """Returns the model, and {output: shape}."""
    function, counts = served.signatures(only=DEFAULT)[DEFAULT], TokenCountLog(path, served.max_seq_length)

    def compute(texts):
        outputs = function(*(tf.constant(texts[name]) for name in served.text_inputs))
        counts.add(outputs.pop(TOKEN_COUNTS).numpy())
        return {name: value.numpy() for name, value in outputs.items()}

    names, several = order_of(served.text_inputs), served.task.list_inputs
    shapes = {name: each.shape for name, each in function.structured_outputs.items() if name != TOKEN_COUNTS}
    fixed = frozenset(name for name, shape in shapes.items() if shape.rank is not None and None not in shape[1:])
    inputs = tuple(TextInput(name, name in several) for name in names)
    return TextModel(path, inputs, compute, fixed, counts), shapes


# === Batch prediction ===


@dataclasses.dataclass(frozen=True)
class TrainedModelMaker:
    """A `table_job.Maker` for a trained model's predictions, with the attributes of `ExportedModel`.

    Attributes:
        path: directory of the model.
        inputs, outputs: as of its export.
        identity: hashes of its weights, its tokenizer and its task.
        problem: of a classifier, one of `names.PROBLEMS`.
        pairs: as in `load_trained_text_model`.
        batch_size: rows per batch.
    """

    path: str
    inputs: tuple[TextInput, ...]
    outputs: tuple[str, ...]
    identity: dict[str, Any]
    problem: str | None = None
    pairs: bool = False
    batch_size: int = 64

    signature = DEFAULT

    def load(self) -> TextModel:
        """Loads the model, unless this process did last; raises ValueError if it is no longer the one described."""
        for loaded in _kept:
            if self._describes(loaded):
                return loaded.model
        loaded = _load_and_keep(self.path, self.pairs)
        if not self._describes(loaded):
            raise ValueError(f"{self.path} has changed since this run began. Run the same command again.")
        return loaded.model

    def _describes(self, loaded):
        known = {name: self.identity[name] for name in loaded.identity}
        return (known, self.pairs) == (loaded.identity, loaded.pairs)

    def __call__(self):
        return TablePredictor(self)


def find_trained_model(path: str, pairs: bool = False, batch_size: int = 64) -> TrainedModelMaker:
    """Loads the trained model in a directory and describes it; arguments and errors as in `load_trained_text_model`."""
    loaded = _load_and_keep(path, pairs)
    inputs, outputs, problem = loaded.model.inputs, tuple(sorted(loaded.shapes)), loaded.identity["task"].get("problem")
    identity = {"model": os.path.realpath(path), **loaded.identity, "batch_size": batch_size}
    return TrainedModelMaker(path, inputs, outputs, identity, problem, pairs, batch_size)


class _Loaded(NamedTuple):
    """A model, {output: shape}, what its answers depend on, and `pairs`, which it was loaded with."""

    model: TextModel
    shapes: dict[str, tf.TensorShape]
    identity: dict[str, Any]
    pairs: bool


# The model that was loaded last, for makers in the same process. It is known by its weights, not by its path: other
# files may be there now, of another training.
_kept: list[_Loaded] = []


def _load_and_keep(path, pairs):
    _kept.clear()  # memory may not suffice for two
    served = _load(path, pairs)
    digest = hashlib.sha256(load_description([path]).digest().encode())
    for weight in served.weights:
        digest.update(tf.io.serialize_tensor(weight).numpy())
    task = json.loads(json.dumps(getattr(served.task, "to_dict", dict)()))
    loaded = _Loaded(*_traced(path, served), {"weights": digest.hexdigest(), "task": task}, pairs)
    _kept[:] = [loaded]
    return loaded
