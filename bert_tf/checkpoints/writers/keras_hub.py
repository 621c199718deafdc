"""KerasHub's preset: config.json, HDF5 files of weights, the tokenizer's and the task's description."""

import os
from importlib import metadata

import numpy as np

from bert_tf.checkpoints import names
from bert_tf.checkpoints.keras_hub import MODEL_WEIGHTS, TASK_FILE, TASK_WEIGHTS, TOKENIZER_FILE, VOCABULARY
from bert_tf.checkpoints.names.keras_hub import TASK
from bert_tf.checkpoints.writers.architectures import architecture_of
from bert_tf.checkpoints.writers.description import write_json, write_labels
from bert_tf.checkpoints.writers.model import Model, Written
from bert_tf.models import families, keras_hub_names
from bert_tf.utils.files import write_text

KERAS_HUB_VERSION = "0.32.0"  # whose files these are; the tests have it read them

# The ending of Transformers' class -> of KerasHub's. It has no class for the labels of tokens and for answers in
# texts; its masked-LM classes compute the head with other numbers than BERT: the exact gelu, and 1e-5 in LayerNorm.
_TASKS = {"Model": None, "ForSequenceClassification": "TextClassifier"}


def write(directory: str, model: Model) -> Written:
    """Writes the files into a directory that is there.

    Raises:
        ValueError: KerasHub has no such model.
        OSError: a file cannot be written.
    """
    task, name_map = check(model), names.of_keras_hub(model.config.model_type)
    by_name = {}
    for path, array in model.arrays.items():
        theirs = name_map.transform(path).to_theirs(array, model.config.num_attention_heads)
        by_name[name_map.from_ours(path)] = theirs.astype(np.float32, copy=False)
    files = {MODEL_WEIGHTS: {name: array for name, array in by_name.items() if not name.startswith(TASK)}}
    if task:
        head = {name.removeprefix(TASK): array for name, array in by_name.items() if name.startswith(TASK)}
        files[TASK_WEIGHTS] = head
    for name, arrays in files.items():
        _write_weights(os.path.join(directory, name), arrays)
    _write_descriptions(directory, model, task)
    write_labels(directory, model.labels)  # KerasHub knows no names for labels; for whoever reads them
    return Written(tuple(files))


def check(model: Model) -> str | None:
    """Returns the ending of the task's class; None: there is no task.

    Raises:
        ValueError: KerasHub has no such model.
    """
    name_map = names.of_keras_hub(model.config.model_type)
    config, family = model.config, families.family(model.config.model_type).keras_hub
    architecture = architecture_of(model.arrays, model.architectures)
    if architecture.ending not in _TASKS:
        raise ValueError(
            f"A KerasHub preset must be an encoder or a classifier of texts. Received a model for "
            f"{architecture.ending.removeprefix('For')}, of which KerasHub has no class that computes the same; say "
            "that the head shall stay behind with `leave_out`, or take another format."
        )
    other = {name: getattr(config, name) for name, value in family.implied.items() if getattr(config, name) != value}
    lacks = [] if not config.has_pooler or "bert/pooler/dense/kernel" in model.arrays else ["no pooler"]
    lacks += [] if config.type_vocab_size or not family.has_segments else ["no segments"]
    lacks += [name for name in ("is_decoder", "norm_first", "first_position") if getattr(config, name)]
    lacks += [] if config.classifier_pooling == "cls" else [f"classifier_pooling={config.classifier_pooling}"]
    lacks += [] if model.tokenizer.mask_id is not None else ["a vocabulary without [MASK]"]
    if other or lacks:
        found = ", ".join([f"{name}={value!r}" for name, value in other.items()] + lacks)
        raise ValueError(
            f"A model for KerasHub's {family.classes}Backbone must have {dict(family.implied)}, which it computes "
            f"with. Received {found}; take another format, or give a setting up with `leave_out`."
        )
    if added := model.tokenizer.added_tokens:
        raise ValueError(
            "A model for KerasHub must have a vocabulary without added tokens, for its presets have no place for them "
            f"and its tokenizer would split them. Received {len(added)}, the first {added[0].content!r}; take another "
            "format."
        )
    for path in model.arrays:
        name_map.from_ours(path)
    return _TASKS[architecture.ending]


def _write_weights(path, arrays):
    import h5py

    with h5py.File(path, "w") as file:  # no `track_order`, with which groups get an index that `hdf5.py` does not read
        for name, array in arrays.items():
            file.create_dataset(name, data=np.ascontiguousarray(array))


def _write_descriptions(directory, model, task):
    config, family = model.config, families.family(model.config.model_type).keras_hub
    backbone = _object(family, "Backbone", "backbone", config_values(model))
    tokenizer = _object(family, "Tokenizer", "tokenizer", _tokenizer_values(model))
    write_json(os.path.join(directory, "config.json"), backbone)
    write_json(os.path.join(directory, TOKENIZER_FILE), tokenizer)
    write_json(os.path.join(directory, "metadata.json"), _metadata(model))
    vocabulary = os.path.join(directory, VOCABULARY)
    os.makedirs(os.path.dirname(vocabulary))
    write_text(vocabulary, "".join(f"{piece}\n" for piece in model.tokenizer.vocab))
    if not task:
        return
    values = {"tokenizer": tokenizer, "config_file": "preprocessor.json", "sequence_length": config.max_length}
    preprocessor = _object(
        family, f"{task}Preprocessor", "text_classifier_preprocessor", values | {"truncate": "round_robin"}
    )
    write_json(os.path.join(directory, "preprocessor.json"), preprocessor)
    values = {"backbone": backbone, "preprocessor": preprocessor, "activation": "linear"}
    values |= {"num_classes": len(model.arrays["classifier/output_bias"]), "dropout": config.hidden_dropout_prob}
    write_json(os.path.join(directory, TASK_FILE), _object(family, task, "text_classifier", values))


def config_values(model: Model) -> dict:
    """Returns what the backbone's constructor is given."""
    config, family = model.config, families.family(model.config.model_type).keras_hub
    keys = keras_hub_names.KEYS
    said = [key for key, ours in keys.items() if family.has_segments or ours != "type_vocab_size"]
    return {key: getattr(config, keys[key]) for key in said}


def _tokenizer_values(model):
    """KerasHub keeps accents where it lowercases, unless it is told to do as Google does."""
    lower = model.tokenizer.do_lower_case
    return {"config_file": TOKENIZER_FILE, "vocabulary": None, "lowercase": lower, "strip_accents": lower}


def _object(family, kind, module, config):
    """Returns Keras's description of an object of one of the family's classes."""
    return {
        "module": f"keras_hub.src.models.{family.module}.{family.module}_{module}",
        "class_name": f"{family.classes}{kind}",
        "config": config,
        "registered_name": f"keras_hub>{family.classes}{kind}",
    }


def _metadata(model):
    return {
        "keras_version": metadata.version("keras"),
        "keras_hub_version": KERAS_HUB_VERSION,
        "parameter_count": sum(a.size for path, a in model.arrays.items() if path.startswith("bert/")),
    }
