"""The names in TF1 checkpoints, google-research/bert's and ours: our variable paths, of every family."""

from bert_tf.checkpoints.names.table import NameMap, Row
from bert_tf.models import lora

# What stands before the names of a generator that was trained beside the discriminator, whose embeddings it shares.
GENERATOR = "generator/"


def _part(path, *names):
    return [f"{path}/{name}" for name in names]


def _dense(path):
    return _part(path, "kernel", "bias")


def _norm(path):
    return _part(path, "gamma", "beta")


def _head(path):
    return _part(path, "output_weights", "output_bias")


_LAYER = "bert/encoder/layer_{n}"
_BLOCKS = [
    *_dense("bert/encoder/embedding_hidden_mapping_in"),
    *(path for part in ("query", "key", "value") for path in _dense(f"{_LAYER}/attention/self/{part}")),
    *_dense(f"{_LAYER}/attention/output/dense"),
    *_norm(f"{_LAYER}/attention/output/LayerNorm"),
    *_dense(f"{_LAYER}/intermediate/dense"),
    *_dense(f"{_LAYER}/output/dense"),
    *_norm(f"{_LAYER}/output/LayerNorm"),
    # `norm_first`: where the norms stand then, so that neither kind of model can be taken for the other; ours alone.
    *_norm(f"{_LAYER}/attention/LayerNorm"),
    *_norm(f"{_LAYER}/intermediate/LayerNorm"),
    *_norm("bert/encoder/LayerNorm"),
]
_MASKED_LM = [
    *_dense("cls/predictions/transform/dense"),
    *_norm("cls/predictions/transform/LayerNorm"),
    *_part("cls/predictions", "output_weights", "output_bias"),  # the first only where it is not tied
]
_PATHS = [
    *_part("bert/embeddings", "word_embeddings", "position_embeddings", "token_type_embeddings",
           "task_type_embeddings"),
    *_norm("bert/embeddings/LayerNorm"),
    *_BLOCKS,
    *_dense("bert/pooler/dense"),
    *_MASKED_LM,
    *_head("cls/seq_relationship"),
    *_head("cls/squad"),
    *_dense("cls/replaced_tokens/dense"),
    *_head("cls/replaced_tokens"),
    *(f"{GENERATOR}{path}" for path in (*_BLOCKS, *_MASKED_LM)),  # ours alone
    *_dense("cls/distillation/hidden"),  # from a student's width to its teacher's; ours alone
    *_dense("classifier/dense"),
    *_part("tagger/layer_sum", "layer_weights", "gamma"),  # on a frozen encoder's features; ours alone
    *_part("tagger/lstm_{n}", "kernel", "recurrent_kernel", "bias"),
    *_head("tagger/classifier"),
    *_part("recurrent/lstm_{n}", "kernel", "recurrent_kernel", "bias"),  # on an encoder that was trained with it
    *_head("recurrent/classifier"),
    *(path for part in lora.TARGETS.values() for path in _part(f"{_LAYER}/{part}", *lora.NAMES)),  # ours alone
]

NAMES = NameMap(
    rows=(
        *(Row(path, path) for path in _PATHS),
        Row("classifier/output_weights", "output_weights"),
        Row("classifier/output_bias", "output_bias"),
    ),
    # The optimizer's moments and the step, as Google writes them; training/ is where our own runs keep the rest of
    # their state (random seeds, position in the data).
    left_out=("{any}/adam_m", "{any}/adam_v", "global_step", "training/{any}"),
    separator="/",  # a module of TensorFlow Hub, once it was fine-tuned, has all its names under "module/"
)
