"""A trained model that computes from texts what its export would, without an export."""

import dataclasses
import os

import tensorflow as tf

from bert_tf.checkpoints.loading import Bert, directory_of, load_description
from bert_tf.export.serving_module import ServingModule
from bert_tf.export.trained_model import TrainedModel, load_trained_model
from bert_tf.inference.text_model import TextInput, TextModel
from bert_tf.models.config_files import CONFIG_FILES, check_not_adapters, check_not_gliner, task_in
from bert_tf.models.encoder import Encoder
from bert_tf.serving.client.requests import DEFAULT, PAIR, order_of
from bert_tf.serving.server.version_folders import SAVED_MODEL, explain_no_versions
from bert_tf.tasks.registry import stated_task
from bert_tf.utils.names import TOKEN_COUNTS
from bert_tf.utils.token_counts import TokenCountLog


def load_trained_text_model(path: str, pairs: bool = False) -> TextModel:
    """Loads a trained model, or a masked LM, and traces the function that an export would contain.

    Args:
        path: directory of the model.
        pairs: whether a Hugging Face text classifier, whose files do not contain this, reads text pairs.

    Raises:
        ValueError: there is no trained model in the directory, or its files are not complete.
    """
    return trace_served(path, load_served(path, pairs))[0]


def load_text_model_of(bert: Bert, pairs: bool = False) -> TextModel:
    """Traces the same function for a model from `bert_tf.load`. Each batch is computed with the weights it then has.

    Args:
        bert: the model. Its files define the task.
        pairs: as in `load_trained_text_model`.

    Raises:
        ValueError: it was not loaded from files, or they do not define a task; or some of its heads are disabled.
    """
    if bert.path is None or bert.tokenizer is None:
        raise ValueError(
            "Predictions require a model whose files define its task and its tokenizer; this one was not loaded from "
            "files. Save it with `bert_tf.save`, and load the result."
        )
    if not isinstance(bert.encoder, Encoder):
        raise ValueError("Predictions require all heads of the encoder; got the result of `ablate_heads`.")
    found = _load(directory_of(bert.path), pairs)
    if isinstance(found, TrainedModel):  # `load` may have been passed another vocabulary
        found = found._replace(tokenizer=bert.tokenizer)
    else:
        found.tokenizer = bert.tokenizer
    here = {variable.path: variable for variable in found.model.variables}
    for path in bert.others.keys() & here:
        here[path].assign(bert.others[path])
    of_bert = [*bert.encoder.variables, *(bert.head.variables if bert.head else [])]
    shared = [(here[each.path], each) for each in of_bert if each.path in here]
    traced = trace_served(bert.path, found.served())[0]

    def compute(texts):
        for variable, current in shared:
            variable.assign(current)
        return traced.compute(texts)

    return dataclasses.replace(traced, compute=compute)


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


def load_served(path, pairs) -> ServingModule:
    return _load(path, pairs).served()


def _load(path, pairs):
    """Returns a `TrainedModel` or a `Filler`."""
    check_not_gliner(path)
    if os.path.isdir(path):
        check_has_model(path)
    trained = stated_task(path, load_description([path]))
    if trained and pairs and task_in(path) is None and trained.task.takes_pairs:
        trained = dataclasses.replace(trained, text_inputs=PAIR)
    return load_trained_model(path, trained) if trained else _load_filler(path)


def _load_filler(path):
    """Returns the masked LM; raises ValueError if the model has no head for that either."""
    from bert_tf.checkpoints.names.rows import MASKED_LM_HEAD
    from bert_tf.checkpoints.readers import open_checkpoint
    from bert_tf.inference.fill_mask import Filler

    if MASKED_LM_HEAD not in open_checkpoint(path).names:
        raise ValueError(
            f"{path} does not define a task: it has no task.json, which the fine-tuning commands write, and no "
            "masked-LM head, and its configuration does not name a Transformers class of a supported task. If it is a "
            "plain encoder, fine-tune it, for example with `bert-tf train classifier`, or compute embeddings with "
            "`bert_tf.SentenceEncoder`."
        )
    return Filler(path)


def trace_served(path, served):
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
