"""The table of families: how configurations are read, and templates of rows."""

import dataclasses
import json
import re

import pytest

from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig, config_for, template_for
from bert_tf.models.config_files import model_type_in
from bert_tf.models.family_spec import Family, InputTemplate

# The file of distilbert-base-uncased.
DISTILBERT = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "vocab_size": 30522,
}


def test_what_sets_the_published_ones_apart():
    bert, distilbert = config_for("bert-base"), config_for("distilbert-base")
    assert (bert.type_vocab_size, bert.has_pooler, bert.hidden_act, bert.model_type) == (2, True, "gelu_tanh", "bert")
    assert (distilbert.type_vocab_size, distilbert.has_pooler, distilbert.hidden_act) == (0, False, "gelu")
    assert dataclasses.replace(EncoderConfig.from_dict(DISTILBERT), extra=distilbert.extra) == distilbert


# Fields that a configuration built in Python may have, beside what every family fixes.
BUILT = {
    "ernie": {"task_type_vocab_size": 3},
    "electra": {"embedding_size": 14},
    "albert": {"embedding_size": 14, "num_hidden_groups": 1, "maps_embeddings": False},
    "roberta": {"has_pooler": True},
    "roberta-prelayernorm": {"first_position": 6},
    "xlm-roberta": {"first_position": 1, "layer_norm_eps": 1e-5},
    "modernbert": {"global_rope_theta": 50.0, "local_attention": 2, "global_attn_every_n_layers": 2},
    "deberta-v2": {"pos_att_type": ("c2p",), "position_buckets": 6, "position_biased_input": False,
                   "enhanced_mask_decoder": True, "classifier_act": None, "conv_kernel_size": 3},
    "nomic_bert": {"global_rope_theta": 50.0, "decoder_bias": False},
    "new": {"global_rope_theta": 50.0, "rope_ntk_factor": 3.0},
}  # fmt: skip


@pytest.mark.parametrize("model_type", family_registry.FAMILIES)
def test_what_is_built_in_python_is_written_and_read_again(model_type, tmp_path):
    row, known = family_registry.FAMILIES[model_type], EncoderConfig.__dataclass_fields__
    fields = {name: value for name, value in row.fixed.items() if name in known}
    shape = {"vocab_size": 77, "hidden_size": 30, "num_hidden_layers": 3, "num_attention_heads": 5,
             "intermediate_size": 44, "max_position_embeddings": 37, "hidden_act": "relu"}  # fmt: skip
    rotary = dict.fromkeys(("nomic_bert", "new"), {"global_rope_theta": 9.0})
    plain = (rotary | {"deberta-v2": {"pos_att_type": ("p2c",)}}).get(model_type, {})  # without which it is not one
    for more in (plain, BUILT.get(model_type, {})):
        config = EncoderConfig(model_type=model_type, **{**shape, **fields, **more})
        config.save(tmp_path / "config.json")
        assert EncoderConfig.load(tmp_path) == config
        assert "pooler_hidden_act" not in row.write(config.to_dict())  # Transformers has no null for it
        assert config.extra.keys() <= set(row.switches.values())  # so that none stay if the family changes


@pytest.mark.parametrize(
    ("fields", "must", "received"),
    [
        ({"model_type": "electra"}, "has_pooler=False, classifier_act='gelu'", "has_pooler=True, classifier_act=None"),
        (
            {"model_type": "distilbert", "has_pooler": False, "classifier_act": "relu"},
            "type_vocab_size=0",
            "type_vocab_size=2",
        ),
        ({"model_type": "albert", "embedding_size": 768}, "maps_embeddings=True", "maps_embeddings=False"),
    ],
)
def test_what_a_family_does_not_have_is_not_saved(fields, must, received, tmp_path):
    message = (
        f"A configuration with model_type={fields['model_type']!r} must have {must} to be saved, because files with "
        f"this type are always loaded with it; got {received}; set {must}."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        EncoderConfig(vocab_size=9, **fields).save(tmp_path / "config.json")
    assert not list(tmp_path.iterdir())


def test_positions_that_begin_elsewhere_are_read_again():
    shape = {"vocab_size": 77, "hidden_size": 30, "num_attention_heads": 5, "max_position_embeddings": 37}
    config = EncoderConfig(model_type="roberta", first_position=6, classifier_act="tanh", has_pooler=False, **shape)
    for first in (6, 2, 9, 0):
        changed = dataclasses.replace(config, first_position=first)
        assert EncoderConfig.from_dict(changed.to_dict()) == changed and changed.first_position == (first or 2)


def test_distilbert_s_file_both_ways(tmp_path):
    config = EncoderConfig.from_dict(DISTILBERT)
    assert (config.hidden_size, config.num_hidden_layers, config.layer_norm_eps) == (768, 6, 1e-12)
    assert (config.type_vocab_size, config.has_pooler, config.model_type) == (0, False, "distilbert")
    assert (config.extra["qa_dropout"], config.extra["seq_classif_dropout"]) == (0.1, 0.2)
    assert not {"dim", "n_layers", "activation", "dropout"} & config.extra.keys()
    config.save(tmp_path / "bert_config.json")
    assert EncoderConfig.load(tmp_path) == config
    assert model_type_in(tmp_path) == "distilbert"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "t5"},
            f"model_type must be one of {sorted(family_registry.FAMILIES)}; got 't5'; use a model",
        ),
        (
            {"model_type": None},
            f"model_type must be one of {sorted(family_registry.FAMILIES)}; got None; use a model",
        ),
        ({"type_vocab_size": 2}, "type_vocab_size must be 0 or absent for this model_type; got 2."),
        ({"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds must be False or absent for this model_type;"),
        ({"hidden_size": 7}, "hidden_size has two different values, 768 and 7"),
        ({"dim": "768"}, "hidden_size must be a positive integer; got '768'."),
        ({"add_cross_attention": True}, "add_cross_attention must be false or absent, because the encoder attends"),
    ],
)
def test_what_a_family_does_not_have_is_refused(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        EncoderConfig.from_dict({**DISTILBERT, **change})


def test_a_row_is_looked_up_when_it_is_needed(monkeypatch, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "mine", "words": 9, "pieces": 4}), encoding="utf-8")
    assert model_type_in(tmp_path / "nowhere") is None
    for read in (EncoderConfig.load, model_type_in):
        with pytest.raises(ValueError, match="config.json: model_type must be one of .* got 'mine'; use a"):
            read(tmp_path)
    row = Family("bert", keys={"words": "vocab_size"}, fixed={"first_position": 2}, sizes={"mine-base": {"words": 5}})
    monkeypatch.setitem(family_registry.FAMILIES, "mine", row)
    config = EncoderConfig.load(tmp_path)
    assert (config.vocab_size, config.first_position, config.max_length) == (9, 2, 510)
    assert config.extra == {"pieces": 4} and EncoderConfig.from_dict(config.to_dict()) == config
    assert config_for("mine-base").vocab_size == 5 and model_type_in(tmp_path) == "mine"


def test_templates():
    bert = InputTemplate()
    assert (bert.special(1), bert.special(2)) == (2, 3)
    assert bert.pieces(1) == ("[CLS]", "[SEP]") and bert.pieces(2) == ("[CLS]", "[SEP]", "[SEP]")
    two = InputTemplate(("<s>",), ("</s>", "</s>"), ("</s>",), 0)
    assert (two.special(1), two.special(2)) == (2, 4)
    template = template_for(EncoderConfig(vocab_size=9, type_vocab_size=1))
    template.check(1)
    message = "type_vocab_size of its configuration is 1, but the second text needs segment 1. Pass one text"
    with pytest.raises(ValueError, match=message):
        template.check(2)
    template_for(EncoderConfig.from_dict(DISTILBERT)).check(2)


def _roberta(**changes):
    return {"model_type": "roberta", "vocab_size": 9, "max_position_embeddings": 40, **changes}


def test_positions_begin_behind_the_padding():
    """transformers#15292: the padding's row of the table is `pad_token_id`, the first token's is the next one."""
    for model_type in ("roberta", "roberta-prelayernorm", "xlm-roberta"):
        config = EncoderConfig.from_dict(_roberta(model_type=model_type, pad_token_id=3))
        assert (config.first_position, config.max_length) == (4, 36)
        assert EncoderConfig.from_dict(config.to_dict()) == config
    assert EncoderConfig.from_dict(_roberta()).first_position == 2
    assert EncoderConfig.from_dict(_roberta(pad_token_id=0)).first_position == 1
    assert EncoderConfig.from_dict({"model_type": "bert", "vocab_size": 9, "pad_token_id": 3}).first_position == 0
    for wrong in (None, True, -1, "1"):
        with pytest.raises(ValueError, match="pad_token_id must be an integer of 0 or more for this model_type"):
            EncoderConfig.from_dict(_roberta(pad_token_id=wrong))
    with pytest.raises(ValueError, match=r"first_position must be pad_token_id \+ 1.* got 2 with pad_token_id 3"):
        EncoderConfig.from_dict(_roberta(pad_token_id=3, first_position=2))


def test_keys_that_an_albert_leaves_out_have_the_values_of_transformers():
    """AlbertConfig() of Transformers 4.57 and 5, which is the xxlarge model."""
    config = EncoderConfig.from_dict({"model_type": "albert", "vocab_size": 30000})
    assert dataclasses.replace(config_for("albert-xxlarge-v2"), extra=config.extra) == config
    assert EncoderConfig.from_dict({"vocab_size": 9}).num_attention_heads == 12  # google-research's files


def test_albert_maps_its_embeddings_whatever_their_width():
    def read(model_type, width):
        return EncoderConfig.from_dict(
            {"model_type": model_type, "vocab_size": 9, "hidden_size": 12, "embedding_size": width}
            | {"num_attention_heads": 12}
        )

    for model_type, width, maps, said in (("albert", 12, True, True), ("albert", 8, True, False),
                                          ("electra", 12, False, False), ("electra", 8, True, False)):  # fmt: skip
        config = read(model_type, width)
        assert (config.has_embedding_map, config.maps_embeddings) == (maps, said)
        assert EncoderConfig.from_dict(config.to_dict()) == config
