"""Guards a promise: the names in other people's checkpoints, written here by hand from their documentation."""

import numpy as np
import pytest

from bert_tf.checkpoints.names import family_mappings
from bert_tf.checkpoints.names.family_mappings import WEIGHT_MAPPINGS
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.models import family_registry
from tests.checkpoints import fakes

BERT, DISTILBERT = WEIGHT_MAPPINGS["bert"], WEIGHT_MAPPINGS["distilbert"]
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
DISTILBERT_BY_HAND = {
    "bert/embeddings/word_embeddings": "distilbert.embeddings.word_embeddings.weight",
    "bert/embeddings/position_embeddings": "distilbert.embeddings.position_embeddings.weight",
    "bert/embeddings/LayerNorm/beta": "distilbert.embeddings.LayerNorm.bias",
    "bert/encoder/layer_0/attention/self/query/kernel": "distilbert.transformer.layer.0.attention.q_lin.weight",
    "bert/encoder/layer_5/attention/self/key/bias": "distilbert.transformer.layer.5.attention.k_lin.bias",
    "bert/encoder/layer_5/attention/self/value/bias": "distilbert.transformer.layer.5.attention.v_lin.bias",
    "bert/encoder/layer_5/attention/output/dense/kernel": "distilbert.transformer.layer.5.attention.out_lin.weight",
    "bert/encoder/layer_3/attention/output/LayerNorm/gamma": "distilbert.transformer.layer.3.sa_layer_norm.weight",
    "bert/encoder/layer_3/intermediate/dense/kernel": "distilbert.transformer.layer.3.ffn.lin1.weight",
    "bert/encoder/layer_3/output/dense/bias": "distilbert.transformer.layer.3.ffn.lin2.bias",
    "bert/encoder/layer_3/output/LayerNorm/beta": "distilbert.transformer.layer.3.output_layer_norm.bias",
    "cls/predictions/transform/dense/kernel": "vocab_transform.weight",
    "cls/predictions/transform/LayerNorm/gamma": "vocab_layer_norm.weight",
    "cls/predictions/output_bias": "vocab_projector.bias",
    "cls/squad/output_bias": "qa_outputs.bias",
    "classifier/output_weights": "classifier.weight",
}
ALL = [(BERT, *pair) for pair in BY_HAND.items()] + [(DISTILBERT, *pair) for pair in DISTILBERT_BY_HAND.items()]


@pytest.mark.parametrize("weight_mapping, ours, theirs", ALL, ids=[theirs for _, _, theirs in ALL])
def test_hugging_face_names_both_ways(weight_mapping, ours, theirs):
    assert weight_mapping.from_ours(ours) == theirs
    assert weight_mapping.to_ours(theirs) == ours


def test_google_s_base_names_both_ways():
    assert len(fakes.BASE) == 206
    for name in fakes.BASE:  # with these heads our paths are Google's names
        assert TF1.to_ours(name) == name
        assert TF1.from_ours(name) == name
    assert TF1.from_ours("classifier/output_weights") == "output_weights"
    assert TF1.to_ours("output_bias") == "classifier/output_bias"


def test_kernels_alone_are_transposed():
    turned = {name for name in fakes.BASE if BERT.transposed(name)}
    assert turned == {name for name in fakes.BASE if name.endswith("/kernel")}
    assert not any(TF1.transposed(name) for name in fakes.BASE)


@pytest.mark.parametrize("weight_mapping", [TF1, *WEIGHT_MAPPINGS.values()], ids=["tf1", *WEIGHT_MAPPINGS])
def test_no_two_rows_meet(weight_mapping):
    for rows in [(*weight_mapping.rows, *own) for own in ((), *weight_mapping.of_class.values())]:
        theirs = [(row.theirs, row.transform.part) for row in rows]  # several of ours may be one of theirs
        for found in (theirs, [(row.ours, row.requires) for row in rows]):
            assert len(set(found)) == len(found)
        assert all(TF1.from_ours(row.ours.replace("{n}", "0")) for row in rows)  # of every family


def test_every_family_has_a_map():
    assert {row.weight_mapping for row in family_registry.FAMILIES.values()} == WEIGHT_MAPPINGS.keys()
    assert family_mappings.hugging_face() is BERT and family_mappings.hugging_face("distilbert") is DISTILBERT
    with pytest.raises(ValueError, match="model_type must be one of"):
        family_mappings.hugging_face("t5")


def test_old_spellings_and_missing_prefix():
    found = BERT.sort(
        [
            "embeddings.LayerNorm.gamma",
            "encoder.layer.3.output.LayerNorm.beta",
            "pooler.dense.bias",
            "embeddings.position_ids",
        ],
    )
    assert found.known == {
        "bert/embeddings/LayerNorm/gamma": "embeddings.LayerNorm.gamma",
        "bert/encoder/layer_3/output/LayerNorm/beta": "encoder.layer.3.output.LayerNorm.beta",
        "bert/pooler/dense/bias": "pooler.dense.bias",
    }
    assert (found.left_out, found.unknown) == (["embeddings.position_ids"], [])
    found = DISTILBERT.sort(["transformer.layer.0.ffn.lin1.bias", "embeddings.position_ids"])
    assert found.known == {"bert/encoder/layer_0/intermediate/dense/bias": "transformer.layer.0.ffn.lin1.bias"}
    assert (found.left_out, found.unknown) == (["embeddings.position_ids"], [])


@pytest.mark.parametrize("outer", ["backbone.", "module.bert.", "model.encoder.bert.", "my_bert."])
def test_the_name_of_a_part_is_peeled_off(outer):
    found = BERT.sort([f"{outer}{name}" for name in ("embeddings.word_embeddings.weight", "pooler.dense.bias")])
    assert found.known == {
        "bert/embeddings/word_embeddings": f"{outer}embeddings.word_embeddings.weight",
        "bert/pooler/dense/bias": f"{outer}pooler.dense.bias",
    }


def test_the_head_of_a_custom_task_keeps_its_names_and_not_its_optimizer_state():
    found = TF1.sort(["bert/pooler/dense/bias", "head/kernel", "head/dense/n", "head/kernel/adam_m", "other/kernel"])
    assert found.known.keys() == {"bert/pooler/dense/bias", "head/kernel", "head/dense/n"}
    assert (found.left_out, found.unknown) == (["head/kernel/adam_m"], ["other/kernel"])
    assert TF1.from_ours("head/dense/n") == "head/dense/n"
    with pytest.raises(ValueError, match="or be in the `head` of a custom task; got 'my_head/kernel'"):
        TF1.from_ours("my_head/kernel")


def test_a_module_of_tensorflow_hub():
    """As run_classifier_with_tfhub.py saves it: the encoder is a part, the head and the step are not."""
    names_there = ["module/bert/embeddings/word_embeddings", "module/bert/pooler/dense/bias", "output_bias"]
    names_there += ["module/cls/predictions/output_bias", "module/bert/pooler/dense/bias/adam_m", "global_step"]
    found = TF1.sort(names_there)
    assert found.known == {
        "bert/embeddings/word_embeddings": "module/bert/embeddings/word_embeddings",
        "bert/pooler/dense/bias": "module/bert/pooler/dense/bias",
        "classifier/output_bias": "output_bias",
        "cls/predictions/output_bias": "module/cls/predictions/output_bias",
    }
    assert (found.left_out, found.unknown) == (["global_step", "module/bert/pooler/dense/bias/adam_m"], [])
    two = ["queries/bert/embeddings/word_embeddings", "passages/bert/embeddings/word_embeddings"]
    assert TF1.sort(two).unknown == sorted(two)


def test_modernbert_s_heads_have_the_names_of_their_classes():
    def path(name, *classes):
        return family_mappings.hugging_face("modernbert", classes=classes).to_ours(name)

    assert path("head.dense.weight", "ModernBertForMaskedLM") == "cls/predictions/transform/dense/kernel"
    assert path("head.dense.weight", "ModernBertForTokenClassification") == "classifier/dense/kernel"
    assert path("head.norm.weight", "ModernBertForQuestionAnswering") == "cls/squad/LayerNorm/gamma"
    assert path("classifier.bias", "ModernBertForQuestionAnswering") == "cls/squad/output_bias"
    assert path("classifier.bias") == path("classifier.bias", "Mine") == "classifier/output_bias"
    found = family_mappings.hugging_face("modernbert").sort(["layers.1.attn.Wqkv.weight", "final_norm.weight"])
    ours = [f"bert/encoder/layer_1/attention/self/{name}/kernel" for name in ("query", "key", "value")]
    wqkv = dict.fromkeys(ours, "layers.1.attn.Wqkv.weight")
    assert found.known == {"bert/encoder/LayerNorm/gamma": "final_norm.weight", **wqkv} and not found.unknown
    value = family_mappings.hugging_face("modernbert").transform(ours[2])
    assert (value.shape((9, 3)), value.shape((8, 3)), value.shape(())) == ((3, 3), (8, 3), ())
    assert [value.to_ours(np.ones(shape)).shape for shape in ((9, 3), (8, 3), ())] == [(3, 3), (8, 3), ()]


def test_deberta_s_heads_have_the_names_of_its_class_and_of_its_releases():
    weight_mapping = family_mappings.hugging_face("deberta-v2", classes=["DebertaV2ForMaskedLM"])
    for front in ("cls.predictions.transform", "lm_predictions.lm_head"):
        names = [f"{front}.dense.weight", f"{front.removesuffix('.transform')}.bias"]
        ours = ["cls/predictions/transform/dense/kernel", "cls/predictions/output_bias"]
        assert weight_mapping.sort(names).known == dict(zip(ours, names, strict=True))
    assert weight_mapping.from_ours("cls/predictions/output_bias") == "cls.predictions.bias"
    assert weight_mapping.from_ours("classifier/dense/kernel") == "pooler.dense.weight"
    positions = "deberta.embeddings.position_embeddings.weight"
    assert weight_mapping.to_ours(positions) == "bert/embeddings/position_embeddings"
    decoding = family_mappings.hugging_face("deberta-v2", positions="cls/predictions/position_embeddings")
    assert decoding.sort([positions]).known == {"cls/predictions/position_embeddings": positions}
    mapping = family_mappings.hugging_face("deberta-v2", positions=None)
    found = mapping.sort([positions, "mask_predictions.classifer.bias"])
    assert (found.known, found.left_out, found.unknown) == (
        {"cls/replaced_tokens/output_bias": "mask_predictions.classifer.bias"}, [positions], []
    )  # fmt: skip
    added = [f"deberta.embeddings.{table}_embeddings._weight" for table in ("position", "word")]
    found = weight_mapping.sort([*added, "deberta.embeddings.word_embeddings.weight"])
    assert (list(found.known), found.left_out, found.unknown) == (["bert/embeddings/word_embeddings"], added, [])


def test_the_encoder_of_nomic_bert_has_a_name_in_models_with_a_head_alone():
    mapping = family_mappings.hugging_face("nomic_bert")
    names = ["embeddings.word_embeddings.weight", "encoder.layers.1.attn.Wqkv.weight", "emb_ln.bias"]
    for front in ("", "bert.", "nomic_bert.", "model."):
        found = mapping.sort([front + name for name in names], family_mappings.prefixes(but=mapping))
        assert len(found.known) == 5 and not found.unknown
    name = mapping.from_ours("bert/embeddings/LayerNorm/beta")
    assert [mapping.written(name, has_head) for has_head in (False, True)] == ["emb_ln.bias", "nomic_bert.emb_ln.bias"]
    assert mapping.written("cls.predictions.bias", False) == "cls.predictions.bias"


# DistilBERT and DeBERTa have no such segments, and the others no such buffers.
_WITHOUT_BUFFERS = {"distilbert", "modernbert", "deberta-v2", "nomic_bert", "new"}


@pytest.mark.parametrize("family", sorted(WEIGHT_MAPPINGS.keys() - _WITHOUT_BUFFERS))
def test_buffers_are_no_weights(family):
    prefix = WEIGHT_MAPPINGS[family].prefix
    for front in (prefix, ""):
        buffers = [f"{front}embeddings.position_ids", f"{front}embeddings.token_type_ids"]
        found = WEIGHT_MAPPINGS[family].sort(buffers)
        assert (found.known, found.left_out, found.unknown) == ({}, buffers, [])


def test_what_lies_beside_the_part():
    words, beside = "embeddings.word_embeddings.weight", ["cls.predictions.bias", "norm.bias"]
    found = BERT.sort([f"model.bert.{words}", *(f"model.{name}" for name in beside)])
    assert found.known["cls/predictions/output_bias"] == "model.cls.predictions.bias"
    assert found.unknown == ["model.norm.bias"]
    found = BERT.sort([f"backbone.{words}", *beside])
    assert (found.known["cls/predictions/output_bias"], found.unknown) == ("cls.predictions.bias", ["norm.bias"])


def test_what_is_no_part():
    words = "embeddings.word_embeddings.weight"
    two = [f"queries.{words}", f"passages.{words}"]
    assert BERT.sort(two).unknown == sorted(two)
    assert "electra." in family_mappings.prefixes(but=BERT) and "bert." not in family_mappings.prefixes(but=BERT)
    for name in (f"electra.{words}", f"model.distilbert.{words}"):
        assert BERT.sort([name], family_mappings.prefixes(but=BERT)).unknown == [name]
    assert DISTILBERT.sort([f"bert.{words}"], family_mappings.prefixes(but=DISTILBERT)).unknown == [f"bert.{words}"]


@pytest.mark.parametrize("family", ["roberta", "electra"])
def test_a_classifier_of_one_layer(family):
    found = WEIGHT_MAPPINGS[family].sort(["classifier.weight", "classifier.bias"])
    ours = {"classifier/output_weights": "classifier.weight", "classifier/output_bias": "classifier.bias"}
    assert (found.known, found.unknown) == (ours, [])


def test_what_the_table_does_not_know_is_said():
    found = BERT.sort(["bert.encoder.layer.03.output.dense.bias", "lm_head.bias"])
    assert found.unknown == ["bert.encoder.layer.03.output.dense.bias", "lm_head.bias"]
    held = ["bert/pooler/dense/kernel/adam_m", "output_bias/adam_v", "global_step", "training/seed", "beta1_power"]
    found = TF1.sort(held)
    assert (sorted(found.left_out), found.unknown) == (sorted(held[:4]), ["beta1_power"])


def test_a_classifier_of_two_layers():
    found = DISTILBERT.sort(["classifier.weight", "classifier.bias", "pre_classifier.weight", "pre_classifier.bias"])
    ours = {"output_weights", "output_bias", "dense/kernel", "dense/bias"}
    assert found.known.keys() == {f"classifier/{name}" for name in ours}


@pytest.mark.parametrize("family", ["electra", "roberta"])
def test_a_classifier_of_tokens_has_one_layer_and_other_names(family):
    weight_mapping, path, two = WEIGHT_MAPPINGS[family], "classifier/output_bias", {"classifier/dense/kernel"}
    assert weight_mapping.from_ours(path, two) == "classifier.out_proj.bias" == weight_mapping.from_ours(path)
    assert weight_mapping.from_ours(path, set()) == "classifier.bias"
    assert weight_mapping.to_ours("classifier.bias") == weight_mapping.to_ours("classifier.out_proj.bias") == path


def test_two_names_for_one_variable_are_refused():
    with pytest.raises(ValueError, match="Several names .* 'bert/pooler/dense/bias': .*'pooler.dense.bias'"):
        BERT.sort(["pooler.dense.bias", "bert.pooler.dense.bias"])


def test_a_twin_stands_in_for_a_missing_first_name():
    found = BERT.sort(["cls.predictions.decoder.bias"])
    assert found.known == {"cls/predictions/output_bias": "cls.predictions.decoder.bias"}
    found = BERT.sort(["cls.predictions.decoder.bias", "cls.predictions.bias"])
    assert found.known == {"cls/predictions/output_bias": "cls.predictions.bias"}
    assert list(found.twins) == ["cls.predictions.decoder.bias"]
    found = DISTILBERT.sort(["vocab_projector.weight"])
    assert found.known == {"bert/embeddings/word_embeddings": "vocab_projector.weight"}


@pytest.mark.parametrize("family", WEIGHT_MAPPINGS)
def test_an_output_layer_of_its_own(family):
    tied, own = family_mappings.hugging_face(family), family_mappings.hugging_face(family, tied=False)
    theirs = own.from_ours("cls/predictions/output_weights")
    assert theirs in {twin.theirs for twin in tied.twins} and not own.transposed("cls/predictions/output_weights")
    assert tied.sort([theirs]).known == {"bert/embeddings/word_embeddings": theirs}
    assert own.sort([theirs]).known == {"cls/predictions/output_weights": theirs}


def test_a_variable_without_a_row():
    for weight_mapping in (TF1, BERT, DISTILBERT):
        with pytest.raises(ValueError, match="must have an entry .* 'bert/rotary/kernel'"):
            weight_mapping.from_ours("bert/rotary/kernel")
    with pytest.raises(ValueError, match="must have an entry"):
        DISTILBERT.from_ours("bert/pooler/dense/kernel")
