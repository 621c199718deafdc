"""Keys of config.json: followed, refused by name, known to change nothing, or named in the log."""

import dataclasses
import json
import logging
import re

import pytest

from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_key_checks import COMPUTED, READ, WITHOUT_EFFECT


def test_every_key_is_in_one_table():
    tables = [READ, set(COMPUTED), *WITHOUT_EFFECT.values()]
    assert len(set().union(*tables)) == sum(map(len, tables))
    fields = {name for name in EncoderConfig.__dataclass_fields__ if name != "extra"}
    assert not fields & set().union(*tables)


@pytest.mark.parametrize(
    "said, message",
    [
        ({"position_embedding_type": "relative_key_query"}, 'position_embedding_type must be "absolute" or absent'),
        ({"is_encoder_decoder": True}, "is_encoder_decoder must be false or absent, because a model is a single "),
        ({"quantization_config": {"bits": 4}}, "quantization_config must be null or absent, because weights are "),
        ({"cross_attention_hidden_size": 8}, "cross_attention_hidden_size must be null or absent"),
        ({"architectures": ["ElectraForMultipleChoice"], "summary_type": "mean"},
         "summary_type must be \"first\" or absent, because the first token represents"),
        ({"architectures": ["ElectraForMultipleChoice"], "summary_use_proj": False}, "summary_use_proj must be true"),
    ],
)  # fmt: skip
def test_what_is_computed_otherwise_is_refused_by_name(said, message):
    values = {"model_type": "electra", "vocab_size": 9}
    with pytest.raises(ValueError, match=re.escape(message)):
        EncoderConfig.from_dict(values | said)
    if "architectures" in said:  # other classes do not read it
        EncoderConfig.from_dict(values | said | {"architectures": ["ElectraModel"]})


MODERNBERT = {"model_type": "modernbert", "vocab_size": 9}


@pytest.mark.parametrize("name", ["absolute", "rope", "sans_pos"])
def test_published_names_of_rotary_positions_change_nothing(name):
    config, plain = (EncoderConfig.from_dict(MODERNBERT | said) for said in ({"position_embedding_type": name}, {}))
    assert dataclasses.replace(config, extra=plain.extra) == plain
    assert EncoderConfig.from_dict(config.to_dict()) == config


def test_other_names_of_rotary_positions_are_refused():
    message = (
        'position_embedding_type must be "absolute", "rope", "sans_pos" or absent, because positions are rotary in '
        "bert_tf; got 'relative_key', which is not supported."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EncoderConfig.from_dict({**MODERNBERT, "position_embedding_type": "relative_key"})


def test_embeddings_without_positions_are_refused_where_positions_are_learned():
    with pytest.raises(ValueError, match='must be "absolute" or absent, because positions are learned embeddings in'):
        EncoderConfig.from_dict({"vocab_size": 9, "position_embedding_type": "sans_pos"})


# The keys of published files that decide nothing here: of ModernBERT-large's fine-tuned classifiers (Transformers 4),
# and of mmBERT, saved by Transformers 5. Sizes are smaller.
_BOTH = {
    "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "classifier_activation": "gelu",
    "classifier_bias": False, "classifier_dropout": 0.0, "classifier_pooling": "mean", "cls_token_id": 1,
    "decoder_bias": True, "deterministic_flash_attn": False, "embedding_dropout": 0.0, "eos_token_id": 2,
    "global_attn_every_n_layers": 3, "gradient_checkpointing": False, "hidden_activation": "gelu", "hidden_size": 64,
    "initializer_cutoff_factor": 2.0, "initializer_range": 0.02, "intermediate_size": 96, "layer_norm_eps": 1e-05,
    "local_attention": 128, "max_position_embeddings": 8192, "mlp_bias": False, "mlp_dropout": 0.0,
    "model_type": "modernbert", "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 4,
    "num_hidden_layers": 4, "pad_token_id": 0, "sep_token_id": 2, "sparse_pred_ignore_index": -100,
    "sparse_prediction": False, "vocab_size": 90,
}  # fmt: skip
PUBLISHED = {
    "modernbert": _BOTH | {
        "_name_or_path": "answerdotai/ModernBERT-large", "architectures": ["ModernBertForSequenceClassification"],
        "global_rope_theta": 160000.0, "id2label": {"0": "yes", "1": "no"}, "label2id": {"yes": 0, "no": 1},
        "local_rope_theta": 160000.0, "position_embedding_type": "absolute", "reference_compile": True,
        "problem_type": "single_label_classification", "torch_dtype": "bfloat16", "transformers_version": "4.48.0",
    },
    "mmbert": _BOTH | {
        "architectures": ["ModernBertForMaskedLM"], "dtype": "float32", "mask_token_id": 4, "unk_token_id": 3,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "position_embedding_type": "sans_pos", "repad_logits_with_grad": False, "tie_word_embeddings": True,
        "rope_parameters": {"full_attention": {"rope_theta": 160000, "rope_type": "default"},
                            "sliding_attention": {"rope_theta": 160000, "rope_type": "default"}},
        "transformers_version": "5.0.0",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_key_of_published_modernberts_is_known(tmp_path, caplog, name):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[name]), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        config = EncoderConfig.load(tmp_path)
    assert (config.global_rope_theta, config.local_rope_theta, config.classifier_pooling) == (160000, 160000, "mean")
    assert not caplog.records


def test_keys_that_nobody_knows_are_kept_and_named_once(tmp_path, caplog):
    path = tmp_path / "config.json"
    said = {"vocab_size": 9, "model_type": "albert", "lattice": 1, "use_cache": True, "directionality": "bidi"}
    path.write_text(json.dumps(said | {"inner_group_num": 1, "classifier_dropout_prob": 0.1}), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert EncoderConfig.load(path).extra["lattice"] == EncoderConfig.load(tmp_path).extra["lattice"] == 1
    said = [record.getMessage() for record in caplog.records if "lattice" in record.getMessage()]
    assert said == [f"{path}: unknown settings are ignored: lattice."]
