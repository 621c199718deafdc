"""EncoderConfig: both dialects in, JSON out and back, and the wording of every refusal."""

import dataclasses
import json
import re

import pytest

from bert_tf.models.config import EncoderConfig, config_for
from bert_tf.models.config_files import is_decoder_in

# The file of google-research/bert's base release.
GOOGLE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
HUGGING_FACE = {"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", "vocab_size": 100}


def test_googles_file():
    config = EncoderConfig.from_dict(GOOGLE)
    assert config == EncoderConfig(vocab_size=30522)
    assert config.to_dict() == {**GOOGLE, "hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}


@pytest.mark.parametrize(
    ("values", "act"),
    [
        ({"vocab_size": 9, "hidden_act": "gelu"}, "gelu_tanh"),
        ({"vocab_size": 9, "hidden_act": "GELU"}, "gelu_tanh"),
        ({"vocab_size": 9}, "gelu_tanh"),
        ({"vocab_size": 9, "hidden_act": "relu"}, "relu"),
        ({"vocab_size": 9, "hidden_act": "gelu", "model_type": "bert"}, "gelu"),
        ({"vocab_size": 9, "model_type": "bert"}, "gelu"),
        ({"vocab_size": 9, "hidden_act": "gelu", "transformers_version": "4.8.2"}, "gelu"),
        ({"vocab_size": 9, "hidden_act": "gelu_new", "model_type": "bert"}, "gelu_tanh"),
        ({"vocab_size": 9, "hidden_act": "gelu_pytorch_tanh", "model_type": "bert"}, "gelu_tanh"),
        ({"vocab_size": 9, "hidden_act": "gelu", "model_type": "albert"}, "gelu"),
        ({"vocab_size": 9, "model_type": "albert"}, "gelu_tanh"),
    ],
)
def test_one_word_for_two_functions(values, act):
    assert EncoderConfig.from_dict(values).hidden_act == act


def test_type_vocab_size_that_a_file_leaves_out():
    assert EncoderConfig.from_dict({"vocab_size": 9}).type_vocab_size == 16
    assert EncoderConfig.from_dict(HUGGING_FACE).type_vocab_size == 2


@pytest.mark.parametrize("act", ["gelu", "gelu_tanh", "relu"])
def test_json_both_ways(tmp_path, act):
    config = EncoderConfig(
        vocab_size=9,
        hidden_size=6,
        num_attention_heads=3,
        hidden_act=act,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0,
        extra={"directionality": "bidi"},
    )
    config.save(tmp_path / "bert_config.json")
    assert EncoderConfig.load(tmp_path / "bert_config.json") == config
    assert EncoderConfig.load(tmp_path) == config
    assert [file.name for file in tmp_path.iterdir()] == ["bert_config.json"]


def test_unknown_keys_are_kept():
    values = {**GOOGLE, "pooler_type": "first_token_transform", "directionality": "bidi"}
    config = EncoderConfig.from_dict(values)
    assert config.extra == {"pooler_type": "first_token_transform", "directionality": "bidi"}
    assert EncoderConfig.from_dict(config.to_dict()) == config
    again = EncoderConfig.from_dict({**HUGGING_FACE, "id2label": {"0": "no"}})
    assert again.to_dict()["id2label"] == {"0": "no"} and EncoderConfig.from_dict(again.to_dict()) == again


def test_a_directory_with_both_files_means_googles(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(HUGGING_FACE), encoding="utf-8")
    assert EncoderConfig.load(tmp_path).hidden_act == "gelu"
    (tmp_path / "bert_config.json").write_text(json.dumps(GOOGLE), encoding="utf-8")
    assert EncoderConfig.load(tmp_path).vocab_size == 30522


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        EncoderConfig(vocab_size=9).vocab_size = 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 0}, "vocab_size must be a positive integer; got 0."),
        ({"vocab_size": "30522"}, "vocab_size must be a positive integer; got '30522'."),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers must be a positive integer; got 2.0."),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a positive integer; got True."),
        ({"intermediate_size": None}, "intermediate_size must be a positive integer; got None."),
        ({"type_vocab_size": -1}, "type_vocab_size must be an integer of 0 or more; got -1."),
        (
            {"hidden_size": 100},
            "hidden_size must be a multiple of num_attention_heads; got hidden_size=100, num_attention_heads=12.",
        ),
        (
            {"hidden_act": "swish"},
            "hidden_act must be one of gelu, gelu_tanh, relu, silu, tanh, linear; got 'swish'.",
        ),
        ({"hidden_act": None}, "hidden_act must be the name of an activation; got None."),
        (
            {"hidden_dropout_prob": 1.0},
            "hidden_dropout_prob must be a number from 0 to below 1; got 1.0.",
        ),
        (
            {"attention_probs_dropout_prob": -0.1},
            "attention_probs_dropout_prob must be a number from 0 to below 1; got -0.1.",
        ),
        ({"first_position": -1}, "first_position must be an integer of 0 or more; got -1."),
        ({"has_pooler": 1}, "has_pooler must be true or false; got 1."),
        ({"is_decoder": "yes"}, "is_decoder must be true or false; got 'yes'."),
        (
            {"first_position": 512},
            "first_position must be below max_position_embeddings; got 512 and 512.",
        ),
        ({"layer_norm_eps": 0}, "layer_norm_eps must be a positive number; got 0."),
        ({"initializer_range": "0.02"}, "initializer_range must be a positive number; got '0.02'."),
        (
            {"position_embedding_type": "relative_key"},
            'position_embedding_type must be "absolute" or absent, because positions are learned embeddings '
            "in bert_tf; got 'relative_key', which is not supported.",
        ),
    ],
)
def test_wrong_values_are_refused_by_name(tmp_path, change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EncoderConfig.from_dict({**GOOGLE, **change})
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps({**GOOGLE, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: {message}')}$"):
        EncoderConfig.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hidden_size": 4}', "{path}: The BERT configuration lacks vocab_size. It has the keys "),
        ("{", "{path} must be a BERT configuration in JSON, such as bert_config.json; got Expecting"),
        ("[1, 2]", "bert_config.json; got a list in place of an object; correct the file, or `bert_con"),
        ("null", "bert_config.json; got a NoneType in place of an object; correct the file"),
    ],
)
def test_files_that_are_no_configuration(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message.format(path=path))):
        EncoderConfig.load(path)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="not found: .*/bert_config.json. Pass a file"):
        EncoderConfig.load(tmp_path / "bert_config.json")
    (tmp_path / "vocab.txt").touch()
    message = r"expected bert_config.json or config.json. It contains \['vocab.txt'\]\.$"
    with pytest.raises(ValueError, match=message):
        EncoderConfig.load(tmp_path)
    (tmp_path / "gliner_config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="GLiNER models.* are not supported; got .*gliner_config.json; use a mod"):
        EncoderConfig.load(tmp_path)


def test_new_settings_are_written_where_they_differ_from_berts():
    plain = EncoderConfig.from_dict(GOOGLE)
    new = {"has_pooler", "first_position", "is_decoder", "norm_first", "classifier_pooling", "model_type"}
    assert not new & plain.to_dict().keys()
    config = dataclasses.replace(plain, is_decoder=True, has_pooler=False, first_position=2, type_vocab_size=0)
    written = config.to_dict()
    assert (written["is_decoder"], written["has_pooler"], written["first_position"]) == (True, False, 2)
    assert EncoderConfig.from_dict(written) == config and config.max_length == 510
    first = dataclasses.replace(plain, norm_first=True)
    assert first.to_dict()["norm_first"] is True and EncoderConfig.from_dict(first.to_dict()) == first
    mean = dataclasses.replace(plain, classifier_pooling="mean")
    assert mean.to_dict()["classifier_pooling"] == "mean" and EncoderConfig.from_dict(mean.to_dict()) == mean
    with pytest.raises(ValueError, match="classifier_pooling must be cls or mean; got 'max'"):
        dataclasses.replace(plain, classifier_pooling="max")


@pytest.mark.parametrize("size", ["albert-base-v2", "distilbert-base", "modernbert-base", "deberta-v3-base"])
def test_a_key_that_transformers_ignores_makes_no_model_causal(size, tmp_path):
    encoder = EncoderConfig.from_dict(config_for(size).to_dict())
    ours = dataclasses.replace(encoder, is_decoder=True)
    assert EncoderConfig.from_dict(ours.to_dict()) == ours
    for sign in ({"architectures": ["AlbertModel"]}, {"transformers_version": "4.57.0"}):
        with pytest.raises(ValueError, match="^is_decoder must be false .* its encoder is always bidirectional"):
            EncoderConfig.from_dict(ours.to_dict() | sign)
        for values, is_causal in ((ours.to_dict(), True), (ours.to_dict() | sign, False)):  # next to a `config_file`
            (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
            assert is_decoder_in(tmp_path) is is_causal
        theirs = dataclasses.replace(encoder, extra={**encoder.extra, **sign})
        assert theirs.extra.items() >= sign.items() and dataclasses.replace(theirs, is_decoder=True) == ours


def test_what_hugging_face_says_aloud_is_kept():
    values = {**HUGGING_FACE, "is_decoder": False}
    config = EncoderConfig.from_dict(values)
    assert config.extra == {"architectures": ["BertModel"], "model_type": "bert", "is_decoder": False}
    assert EncoderConfig.from_dict(config.to_dict()) == config
    assert list(config.to_dict())[:3] == ["architectures", "model_type", "is_decoder"]
    left = dataclasses.replace(config, is_decoder=True)
    assert left.to_dict()["is_decoder"] is True and EncoderConfig.from_dict(left.to_dict()) == left
