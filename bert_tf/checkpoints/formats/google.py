"""The directory of a release of google-research/bert: bert_model.ckpt, bert_config.json, vocab.txt."""

import dataclasses
import os

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.description_files import with_head_class, write_json, write_labels
from bert_tf.checkpoints.model_arrays import ModelArrays, Written
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.models.config import EncoderConfig

CHECKPOINT = "bert_model.ckpt"
# The keys of its bert_config.json; its code does not support other settings of our encoder.
_KEYS = (
    "attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob", "hidden_size", "initializer_range",
    "intermediate_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers", "type_vocab_size",
    "vocab_size",
)  # fmt: skip
_OTHER_DIALECT = ("model_type", "architectures", "transformers_version")
_EPSILON = 1e-12  # of every LayerNorm in its modeling.py
_NOT_GOOGLES = (
    "classifier/dense/", "cls/replaced_tokens/", "recurrent/", "tagger/", "bert/encoder/embedding_hidden_mapping_in/",
)  # fmt: skip


def write_google(directory: str, model: ModelArrays) -> Written:
    """Writes a google-research/bert directory into an existing directory.

    Raises:
        ValueError: google-research/bert does not support the model; or the disk is full.
        OSError: a file cannot be written.
    """
    check_google(model)
    values, remarks = bert_config(model.config)
    named = float32_by_name(model)
    tf1.write_tensors(os.path.join(directory, CHECKPOINT), named | dict(model.optimizer))
    write_json(os.path.join(directory, "bert_config.json"), with_head_class(values, model))
    model.tokenizer.save(directory)
    write_labels(directory, model.labels)
    if added := model.tokenizer.added_tokens:
        remarks += (
            f"google-research/bert's own code only reads vocab.txt, which cannot store the {len(added)} added tokens "
            f"such as {added[0].content!r}: it splits them. bert_tf and Transformers read them from "
            "tokenizer_config.json.",
        )
    return Written(tuple(f"{CHECKPOINT}.{end}" for end in ("data-00000-of-00001", "index")), (), remarks)


def float32_by_name(model: ModelArrays) -> dict:
    """Returns {TF1 name: float32 array}, the dtype that all readers of TF1 checkpoints expect."""
    return {TF1.from_ours(path): array.astype("float32", copy=False) for path, array in model.arrays.items()}


def bert_config(config: EncoderConfig) -> tuple[dict, tuple[str, ...]]:
    """Returns the contents of bert_config.json, and remarks for its reader.

    In Google's files, "gelu" means the tanh form. A model with the exact form therefore keeps a key that Google's files
    lack, from which `EncoderConfig` and Transformers recognize it; Google's own code would compute the other form.
    """
    extra = {name: value for name, value in config.extra.items() if name not in _OTHER_DIALECT}
    values = {name: getattr(config, name) for name in _KEYS}
    if config.hidden_act == "gelu_tanh" and config.layer_norm_eps == _EPSILON:
        return {**extra, **values, "hidden_act": "gelu"}, ()
    if config.hidden_act not in ("gelu", "gelu_tanh") and config.layer_norm_eps == _EPSILON:
        return {**extra, **values}, ()
    remark = (
        f"google-research/bert's own code uses the tanh form of gelu and LayerNorm with {_EPSILON}; this model has "
        f"{config.hidden_act} and {config.layer_norm_eps}, which Transformers and bert_tf read from bert_config.json."
    )
    return {**extra, **values, "layer_norm_eps": config.layer_norm_eps}, (remark,)


def check_google(model: ModelArrays):
    """Raises ValueError if google-research/bert does not support the model."""
    plain = EncoderConfig(**{name: getattr(model.config, name) for name in _KEYS})
    fields = [f.name for f in dataclasses.fields(plain) if f.name not in (*_KEYS, "extra", "layer_norm_eps")]
    other = [f"{name}={getattr(model.config, name)!r}" for name in fields
             if getattr(model.config, name) != getattr(plain, name)]  # fmt: skip
    strange = [path for path in model.arrays if path.startswith(_NOT_GOOGLES)]
    other += [] if model.config.type_vocab_size else ["type_vocab_size=0"]
    if other or strange:
        raise ValueError(
            "The google-research/bert format requires a BERT as in its modeling.py. This model has "
            f"{', '.join(other + strange[:5])}; use the format bert_tf."
        )
