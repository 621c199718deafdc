"""Keys of config.json: followed, refused by name, known to change nothing, or named in the log."""

import json
import logging
import re

import pytest

from bert_tf.models import config
from bert_tf.models.config import EncoderConfig


def test_every_key_is_in_one_table():
    tables = [config.READ, set(config.COMPUTED), *config.WITHOUT_EFFECT.values()]
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


def test_keys_that_nobody_knows_are_kept_and_named_once(tmp_path, caplog):
    path = tmp_path / "config.json"
    said = {"vocab_size": 9, "model_type": "albert", "lattice": 1, "use_cache": True, "directionality": "bidi"}
    path.write_text(json.dumps(said | {"inner_group_num": 1, "classifier_dropout_prob": 0.1}), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert EncoderConfig.load(path).extra["lattice"] == EncoderConfig.load(tmp_path).extra["lattice"] == 1
    said = [record.getMessage() for record in caplog.records if "lattice" in record.getMessage()]
    assert said == [f"{path}: unknown settings are ignored: lattice."]
