"""Guards a promise: the names in other people's checkpoints, written here by hand from their documentation."""

import pytest

from bert_tf.checkpoints import name_maps
from bert_tf.checkpoints.name_maps import HUGGING_FACE, TF1
from tests.checkpoints import fakes

BY_HAND = {
    "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "bert/embeddings/LayerNorm/gamma": "bert.embeddings.LayerNorm.weight",
    "bert/embeddings/LayerNorm/beta": "bert.embeddings.LayerNorm.bias",
    "bert/encoder/layer_0/attention/self/query/kernel": "bert.encoder.layer.0.attention.self.query.weight",
    "bert/encoder/layer_11/attention/output/LayerNorm/beta": "bert.encoder.layer.11.attention.output.LayerNorm.bias",
    "bert/encoder/layer_7/intermediate/dense/bias": "bert.encoder.layer.7.intermediate.dense.bias",
    "bert/encoder/layer_7/output/dense/kernel": "bert.encoder.layer.7.output.dense.weight",
    "bert/pooler/dense/kernel": "bert.pooler.dense.weight",
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/predictions/transform/dense/kernel": "cls.predictions.transform.dense.weight",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/squad/output_weights": "qa_outputs.weight",
    "classifier/output_bias": "classifier.bias",
}


@pytest.mark.parametrize("ours, theirs", BY_HAND.items())
def test_hugging_face_names_both_ways(ours, theirs):
    assert name_maps.from_ours(ours, HUGGING_FACE) == theirs
    assert name_maps.to_ours(theirs, HUGGING_FACE) == ours


def test_google_s_base_names_both_ways():
    assert len(fakes.BASE) == 206
    for name in fakes.BASE:  # with these heads our paths are Google's names
        assert name_maps.to_ours(name, TF1) == name
        assert name_maps.from_ours(name, TF1) == name
    assert name_maps.from_ours("classifier/output_weights", TF1) == "output_weights"
    assert name_maps.to_ours("output_bias", TF1) == "classifier/output_bias"


def test_kernels_alone_are_transposed():
    turned = {name for name in fakes.BASE if name_maps.transposed(name, HUGGING_FACE)}
    assert turned == {name for name in fakes.BASE if name.endswith("/kernel")}
    assert not any(name_maps.transposed(name, TF1) for name in fakes.BASE)


def test_no_two_rows_meet():
    for dialect in ("ours", TF1, HUGGING_FACE):
        names = [getattr(row, dialect) for row in name_maps.ROWS]
        assert len(set(names)) == len(names)


def test_old_spellings_and_missing_prefix():
    found = name_maps.sort_names(
        [
            "embeddings.LayerNorm.gamma",
            "encoder.layer.3.output.LayerNorm.beta",
            "pooler.dense.bias",
            "embeddings.position_ids",
        ],
        HUGGING_FACE,
    )
    assert found.known == {
        "bert/embeddings/LayerNorm/gamma": "embeddings.LayerNorm.gamma",
        "bert/encoder/layer_3/output/LayerNorm/beta": "encoder.layer.3.output.LayerNorm.beta",
        "bert/pooler/dense/bias": "pooler.dense.bias",
    }
    assert (found.left_out, found.unknown) == (["embeddings.position_ids"], [])


def test_what_the_table_does_not_know_is_said():
    found = name_maps.sort_names(["bert.encoder.layer.03.output.dense.bias", "lm_head.bias"], HUGGING_FACE)
    assert found.unknown == ["bert.encoder.layer.03.output.dense.bias", "lm_head.bias"]
    names = ["bert/pooler/dense/kernel/adam_m", "output_bias/adam_v", "global_step", "training/seed", "beta1_power"]
    found = name_maps.sort_names(names, TF1)
    assert (sorted(found.left_out), found.unknown) == (sorted(names[:4]), ["beta1_power"])


def test_two_names_for_one_variable_are_refused():
    with pytest.raises(ValueError, match="Only one name .* 'bert/pooler/dense/bias'. Received: .*'pooler.dense.bias'"):
        name_maps.sort_names(["pooler.dense.bias", "bert.pooler.dense.bias"], HUGGING_FACE)


def test_a_twin_stands_in_for_a_missing_first_name():
    found = name_maps.sort_names(["cls.predictions.decoder.bias"], HUGGING_FACE)
    assert found.known == {"cls/predictions/output_bias": "cls.predictions.decoder.bias"}
    found = name_maps.sort_names(["cls.predictions.decoder.bias", "cls.predictions.bias"], HUGGING_FACE)
    assert found.known == {"cls/predictions/output_bias": "cls.predictions.bias"}
    assert list(found.twins) == ["cls.predictions.decoder.bias"]


def test_a_variable_without_a_row():
    with pytest.raises(ValueError, match="must have a row .* 'bert/rotary/kernel'"):
        name_maps.from_ours("bert/rotary/kernel", TF1)
