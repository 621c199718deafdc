"""The names of new's published files: queries, keys and values in one weight, the gated maps in another."""

from bert_tf.checkpoints.names.array_layouts import TRANSPOSED_HALVES, transposed_part
from bert_tf.checkpoints.names.rows import LAYER, JoinedName, WeightName, decoder, dense, head, masked_lm_rows, norm
from bert_tf.checkpoints.names.weight_mapping import WeightMapping

_NEW_LAYER = "new.encoder.layer.{n}"

NEW_NAMES = WeightMapping(
    rows=(
        WeightName("bert/embeddings/word_embeddings", "new.embeddings.word_embeddings.weight"),
        WeightName("bert/embeddings/token_type_embeddings", "new.embeddings.token_type_embeddings.weight"),
        *norm("bert/embeddings/LayerNorm", "new.embeddings.LayerNorm"),
        *(
            WeightName(f"{LAYER}/attention/self/{name}/{ours}", f"{_NEW_LAYER}.attention.qkv_proj.{theirs}",
                       transposed_part(part, 3))
            for part, name in enumerate(("query", "key", "value"))
            for ours, theirs in (("kernel", "weight"), ("bias", "bias"))
        ),
        *dense(f"{LAYER}/attention/output/dense", f"{_NEW_LAYER}.attention.o_proj"),
        *norm(f"{LAYER}/attention/output/LayerNorm", f"{_NEW_LAYER}.attn_ln"),
        WeightName(f"{LAYER}/intermediate/dense/kernel", f"{_NEW_LAYER}.mlp.up_gate_proj.weight", TRANSPOSED_HALVES),
        *dense(f"{LAYER}/output/dense", f"{_NEW_LAYER}.mlp.down_proj"),
        *norm(f"{LAYER}/output/LayerNorm", f"{_NEW_LAYER}.mlp_ln"),
        *dense("bert/pooler/dense", "new.pooler.dense"),
        *masked_lm_rows("lm_head.dense", "lm_head.norm", "lm_head.decoder.bias"),
        *head("cls/squad", "qa_outputs"),
        *head("classifier", "classifier"),
    ),
    twins=decoder("lm_head.decoder")[:1],
    prefix="new.",  # NewModel saves without it
    without_prefix=("embeddings.", "encoder.", "pooler."),
    joined=tuple(  # of files with `pack_qkv` false
        JoinedName(f"attention.qkv_proj.{end}", tuple(f"attention.{name}_proj.{end}" for name in "qkv"), False)
        for end in ("weight", "bias")
    ),
)
