"""The names in TF1 checkpoints, google-research/bert's and ours: our variable paths, of every family."""

from bert_tf.checkpoints.names.rows import LAYER, WeightName
from bert_tf.checkpoints.names.weight_mapping import WeightMapping
from bert_tf.models import lora

# Prefix of a generator that was trained with the discriminator, whose embeddings it shares.
GENERATOR = "generator/"


def _tf1(path, *names):
    return [f"{path}/{name}" for name in names]


def _tf1_dense(path):
    return _tf1(path, "kernel", "bias")


def _tf1_norm(path):
    return _tf1(path, "gamma", "beta")


def _tf1_head(path):
    return _tf1(path, "output_weights", "output_bias")


_TF1_BLOCKS = [
    *_tf1_dense("bert/encoder/embedding_hidden_mapping_in"),
    *(path for part in ("query", "key", "value") for path in _tf1_dense(f"{LAYER}/attention/self/{part}")),
    *_tf1_dense(f"{LAYER}/attention/output/dense"),
    *_tf1_norm(f"{LAYER}/attention/output/LayerNorm"),
    *_tf1_dense(f"{LAYER}/intermediate/dense"),
    *_tf1_dense(f"{LAYER}/output/dense"),
    *_tf1_norm(f"{LAYER}/output/LayerNorm"),
    # `norm_first`: where the norms stand then, so that neither kind of model can be taken for the other; ours alone.
    *_tf1_norm(f"{LAYER}/attention/LayerNorm"),
    *_tf1_norm(f"{LAYER}/intermediate/LayerNorm"),
    *_tf1_norm("bert/encoder/LayerNorm"),
]
# Ours alone: the convolution's, and those of relative positions.
_RELATIVE = [
    *_tf1_dense("bert/encoder/conv"),
    *_tf1_norm("bert/encoder/conv/LayerNorm"),
    *_tf1("bert/embeddings/relative_positions", "relative_embeddings", "attention_bias"),
    *_tf1_norm("bert/embeddings/relative_positions/LayerNorm"),
]
_MASKED_LM = [
    *_tf1_dense("cls/predictions/transform/dense"),
    *_tf1_norm("cls/predictions/transform/LayerNorm"),
    *_tf1("cls/predictions", "output_weights", "output_bias"),  # the first only where it is not tied
    *_tf1("cls/predictions", "position_embeddings"),  # of the enhanced mask decoder; ours alone
]
_PATHS = [
    *_tf1("bert/embeddings", "word_embeddings", "position_embeddings", "token_type_embeddings", "task_type_embeddings"),
    *_tf1_norm("bert/embeddings/LayerNorm"),
    *_RELATIVE,
    *_TF1_BLOCKS,
    *_tf1_dense("bert/pooler/dense"),
    *_MASKED_LM,
    *_tf1_head("cls/seq_relationship"),
    *_tf1_head("cls/squad"),
    *_tf1_dense("cls/squad/dense"),  # ours alone, as `head_norm` is
    *_tf1_norm("cls/squad/LayerNorm"),
    *_tf1_dense("cls/replaced_tokens/dense"),
    *_tf1_norm("cls/replaced_tokens/LayerNorm"),
    *_tf1_head("cls/replaced_tokens"),
    *(f"{GENERATOR}{path}" for path in (*_RELATIVE, *_TF1_BLOCKS, *_MASKED_LM)),  # ours alone
    *_tf1_dense("cls/distillation/hidden"),  # from a student's width to its teacher's; ours alone
    *_tf1_dense("classifier/dense"),
    *_tf1_norm("classifier/LayerNorm"),
    *_tf1("tagger/layer_sum", "layer_weights", "gamma"),  # on a frozen encoder's features; ours alone
    *_tf1("tagger/lstm_{n}", "kernel", "recurrent_kernel", "bias"),
    *_tf1_head("tagger/classifier"),
    *_tf1("recurrent/lstm_{n}", "kernel", "recurrent_kernel", "bias"),  # on an encoder that was trained with it
    *_tf1_head("recurrent/classifier"),
    "head/{own}",  # a custom task's
    *(path for part in lora.TARGETS.values() for path in _tf1(f"{LAYER}/{part}", *lora.NAMES)),  # ours alone
]

TF1 = WeightMapping(
    rows=(
        *(WeightName(path, path) for path in _PATHS),
        WeightName("classifier/output_weights", "output_weights"),
        WeightName("classifier/output_bias", "output_bias"),
    ),
    # The optimizer's moments and the step, as Google writes them; training/ is where our own runs keep the rest of
    # their state (random seeds, position in the data).
    left_out=("{any}/adam_m", "{any}/adam_v", "global_step", "training/{any}"),
    separator="/",  # a module of TensorFlow Hub, once it was fine-tuned, has all its names under "module/"
)
