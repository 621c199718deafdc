"""Writers: every format gives back the same bytes of every tensor, and refuses what it cannot hold."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.architectures import architecture_of
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.description_files import write_labels
from bert_tf.checkpoints.loading import read_labels
from bert_tf.checkpoints.names.tf1 import TF1
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.tf1 import read_tensors
from bert_tf.models.config import EncoderConfig
from bert_tf.models.replaced_tokens import ReplacedTokenPretrainer
from bert_tf.pretraining.objectives.electra_configs import make_generator_config
from tests.export.conversion import models

_WITH_TEXT_HEADS = ("encoder", "text", "regression")


def _formats(case, kind):
    """Returns the formats that can hold such a model."""
    family, config = models.CASES[case]["model_type"], models.config(case)
    tanh = config.hidden_act == "gelu_tanh"
    google = family == "bert"
    keras_hub = family == "bert" and tanh or family == "distilbert" and not tanh
    held = {
        "bert_tf": True,
        "huggingface": True,
        "tf1": google,
        "sentence_transformers": kind == "encoder",
        "keras_hub": keras_hub and kind in _WITH_TEXT_HEADS,
    }
    return [form for form, holds in held.items() if holds]


def _settings(config):
    names = [f.name for f in dataclasses.fields(config) if f.name not in ("extra", "has_pooler")]
    values = {name: getattr(config, name) for name in names}
    return values | {"embedding_size": config.embedding_width, "num_hidden_groups": config.num_blocks}


def _same(one, other):
    return one.keys() == other.keys() and all(one[path].tobytes() == other[path].tobytes() for path in one)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow) if case.endswith("-odd") or case == "distilbert" else case
     for case in models.CASES],
)  # fmt: skip
def test_round_trips_through_every_format(case, tmp_path):
    """Each model goes from one format to the next, and back to the first."""
    for kind in models.kinds(case):
        model = models.model(case, kind)
        forms = _formats(case, kind)
        for n, form in enumerate([*forms, forms[0]]):
            folder = tmp_path / f"{kind} {n} {form}"
            folder.mkdir()
            written = writers.write_model(folder, form, model)
            checkpoint, config = open_checkpoint(folder), EncoderConfig.load(folder)
            assert written.not_held == () and checkpoint.unknown == [] == checkpoint.left_out, (kind, form)
            arrays = {path: checkpoint.stored(path) for path in checkpoint.names}
            assert _same(arrays, model.arrays), (kind, form)
            changed = _settings(config).items() - _settings(model.config).items()
            assert {name for name, _ in changed} <= {"initializer_range"}, (kind, form)
            assert read_labels(folder, config) == model.labels
            model = dataclasses.replace(model, config=config, arrays=arrays)


@pytest.mark.parametrize("name", ["two\nlines", "a return\r"])
def test_a_label_that_could_not_be_read_again_is_not_written(tmp_path, name):
    with pytest.raises(ValueError, match="The name of a label must be one line of text; got"):
        write_labels(str(tmp_path), ["a", name])
    assert not list(tmp_path.iterdir())
    model = models.model("bert", "text")
    model = dataclasses.replace(model, labels=[name, *model.labels[1:]])
    for form in ("huggingface", "bert_tf"):
        (tmp_path / form).mkdir()
        with pytest.raises(ValueError, match="The name of a label must be one line of text; got"):
            writers.write_model(str(tmp_path / form), form, model)
    write_labels(str(tmp_path), ["a", "b, c \u2028 d"])
    assert read_labels(str(tmp_path), None) == ["a", "b, c \u2028 d"]


def test_what_the_formats_are_tried_with():
    """The list above is not empty by mistake."""
    assert _formats("bert", "text") == ["bert_tf", "huggingface", "tf1", "keras_hub"]
    assert _formats("distilbert", "encoder") == ["bert_tf", "huggingface", "sentence_transformers", "keras_hub"]
    assert sum(len(models.kinds(case)) for case in models.CASES) == 146


def test_the_pooler_s_activation_has_the_name_that_transformers_knows(tmp_path):
    model = models.model("deberta", "text")
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, classifier_act="gelu_tanh"))
    writers.write_model(tmp_path, "huggingface", model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["pooler_hidden_act"] == "gelu_new"
    assert EncoderConfig.load(tmp_path).classifier_act == "gelu_tanh"


@pytest.mark.parametrize("case", ["mpnet", "deberta"])
def test_transformers_removes_no_heads_from_models_with_relative_positions(case, tmp_path):
    """Its MPNet would add the biases of all heads to the scores of those that remain; its DeBERTa refuses."""
    model = models.model(case, "text")
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, pruned_heads={0: (1,)}))
    with pytest.raises(ValueError, match=r"cannot remove attention heads from .* has pruned_heads=\{0: \(1,\)\}"):
        writers.write_model(str(tmp_path), "huggingface", model)


@pytest.mark.parametrize("kind", ["text", "pretraining", "spans"])
def test_a_tf1_checkpoint_has_google_s_names_and_shapes(kind, tmp_path):
    model = models.model("bert", kind)
    writers.write_model(tmp_path, "tf1", model)
    found = {name: array.shape for name, array in read_tensors(str(tmp_path / "bert_model.ckpt")).items()}
    assert found == {TF1.from_ours(path): array.shape for path, array in model.arrays.items()}
    heads = {"text": {"output_weights": (3, 12), "output_bias": (3,)},
             "spans": {"cls/squad/output_weights": (2, 12), "cls/squad/output_bias": (2,)},
             "pretraining": {"cls/predictions/transform/dense/kernel": (12, 12),
                             "cls/predictions/transform/dense/bias": (12,),
                             "cls/predictions/transform/LayerNorm/gamma": (12,),
                             "cls/predictions/transform/LayerNorm/beta": (12,),
                             "cls/predictions/output_bias": (len(models.PIECES) + 3,),
                             "cls/seq_relationship/output_weights": (2, 12),
                             "cls/seq_relationship/output_bias": (2,)}}  # fmt: skip
    assert {name: shape for name, shape in found.items() if not name.startswith("bert/")} == heads[kind]
    values = json.loads((tmp_path / "bert_config.json").read_text(encoding="utf-8"))
    assert values["hidden_act"] == "gelu" and "layer_norm_eps" not in values  # Google's word for the tanh form


def test_google_s_dialect_keeps_the_exact_gelu(tmp_path):
    written = writers.write_model(tmp_path, "tf1", models.model("bert-odd", "encoder"))
    assert EncoderConfig.load(tmp_path).hidden_act == "gelu"
    assert "google-research/bert's own code uses the tanh form of gelu" in written.remarks[0]


def test_half_precision_stays_where_the_format_has_it(tmp_path):
    model = models.model("bert", "text")
    model = dataclasses.replace(model, arrays={path: a.astype(np.float16) for path, a in model.arrays.items()})
    for form, dtype in (("huggingface", np.float16), ("tf1", np.float32), ("keras_hub", np.float32)):
        (tmp_path / form).mkdir()
        writers.write_model(tmp_path / form, form, model)
        checkpoint = open_checkpoint(tmp_path / form)
        assert all(checkpoint.stored(path).dtype == dtype for path in checkpoint.names)
        assert _same({path: checkpoint.get(path).astype(np.float16) for path in checkpoint.names}, model.arrays)


def test_the_pooler_stays_behind_where_a_class_has_none(tmp_path):
    model = models.model("bert", "tokens")
    pooler = {path: a for path, a in models.arrays(model.config, "encoder").items() if "/pooler/" in path}
    written = writers.write_model(tmp_path, "huggingface", dataclasses.replace(model, arrays=model.arrays | pooler))
    assert written.not_held == ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
    assert open_checkpoint(tmp_path).names.keys() == model.arrays.keys()


CLASSES = [
    ("bert", "encoder", "BertModel"),
    ("bert", "text", "BertForSequenceClassification"),
    ("electra", "tokens", "ElectraForTokenClassification"),
    ("distilbert-odd", "spans", "DistilBertForQuestionAnswering"),
    ("roberta", "masked_lm", "RobertaForMaskedLM"),
    ("albert", "pretraining", "AlbertForPreTraining"),
    ("electra", "discriminator", "ElectraForPreTraining"),
    ("ernie", "regression", "ErnieForSequenceClassification"),
]


@pytest.mark.parametrize("case, kind, name", CLASSES, ids=[name for *_, name in CLASSES])
def test_classes_of_transformers(case, kind, name, tmp_path):
    model = models.model(case, kind)
    writers.write_model(tmp_path, "huggingface", model)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values["architectures"] == [name]
    outputs = len(model.arrays.get("classifier/output_bias", ()))
    assert len(values.get("id2label", {})) or values.get("num_labels", 0) == outputs


@pytest.mark.parametrize(
    "case, kind, form, message",
    [
        ("distilbert-odd", "encoder", "tf1", "requires a BERT as in its modeling.py. This model has has_pooler=False"),
        ("bert", "text", "sentence_transformers", "must not have a head; got classifier; drop it"),
        ("bert-odd", "encoder", "keras_hub", "This model has hidden_act='gelu'; use the format bert_tf"),
        ("bert", "spans", "keras_hub", "must be an encoder or a text classifier; got a model for QuestionAns"),
        ("bert", "masked_lm", "keras_hub", "must be an encoder or a text classifier; got a model for Masked"),
        ("ernie", "encoder", "keras_hub", "one of \\['albert', 'bert', .*'xlm-roberta'\\]; got 'ernie'"),
        ("roberta", "encoder", "keras_hub", "must have its family's tokenizer, byte_bpe.* got wordpiece"),
        ("bert", "encoder", "onnx", "`format` must be one of tf1, huggingface, .* got 'onnx'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(case, kind, form, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        writers.write_model(tmp_path, form, models.model(case, kind))


def test_padding_that_transformers_would_count_from(tmp_path):
    model = dataclasses.replace(models.model("roberta", "encoder"), tokenizer=models.tokenizer(models.config("bert")))
    with pytest.raises(ValueError, match="padding id must be 1 .* positions start at 2. .* pads with 0"):
        writers.write_model(tmp_path, "huggingface", model)


def test_positions_that_transformers_would_count_from_zero(tmp_path):
    config = dataclasses.replace(models.config("bert"), first_position=2)
    model = dataclasses.replace(models.model("bert", "encoder"), config=config)
    for form, message in (
        ("huggingface", "positions start at 0 for this model_type. This model has first_position=2"),
        ("tf1", "This model has first_position=2"),
        ("keras_hub", "This model has first_position"),
    ):
        with pytest.raises(ValueError, match=message):
            writers.write_model(tmp_path, form, model)


def test_a_map_behind_embeddings_as_wide_as_the_layers(tmp_path):
    """Transformers' ALBERT has one at any width, its ELECTRA only where the widths differ."""
    for model_type, has_map in (("albert", False), ("electra", True)):
        config = dataclasses.replace(models.config(model_type), embedding_size=12, maps_embeddings=has_map)
        assert config.hidden_size == 12 and config.has_embedding_map is has_map
        model = models.model(model_type, "encoder")
        model = dataclasses.replace(model, config=config, arrays=models.arrays(config, "encoder"))
        with pytest.raises(ValueError, match=f"has maps_embeddings={has_map} with model_type='{model_type}'"):
            writers.write_model(tmp_path, "huggingface", model)


def test_norms_first_in_a_family_whose_classes_have_them_last(tmp_path):
    config = dataclasses.replace(models.config("bert-odd"), norm_first=True, hidden_act="gelu_tanh")
    arrays = models.arrays(config, "encoder")
    model = dataclasses.replace(models.model("bert-odd", "encoder"), config=config, arrays=arrays)
    for form, message in (
        ("huggingface", "This model has norm_first=True with model_type='bert'; use the format bert_tf."),
        ("sentence_transformers", "only supports norm_first=False for this model_type. This model has norm_first=True"),
        ("tf1", "This model has norm_first=True"),
        ("keras_hub", "This model has norm_first"),
    ):
        with pytest.raises(ValueError, match=message):
            writers.write_model(tmp_path, form, model)
    writers.write_model(tmp_path, "bert_tf", model)
    assert EncoderConfig.load(tmp_path) == config
    assert _same({path: open_checkpoint(tmp_path).stored(path) for path in arrays}, model.arrays)
    without = [path for path in _paths_of_post_norm() if path not in arrays]
    assert without == [path for path in without if "/output/LayerNorm/" in path] and len(without) == 4


def test_the_head_for_replaced_tokens_of_deberta_s_releases(tmp_path):
    model = models.model("deberta", "discriminator")
    assert "cls/replaced_tokens/LayerNorm/gamma" in model.arrays
    writers.write_model(tmp_path, "huggingface", model)
    assert "mask_predictions.LayerNorm.weight" in load_file(tmp_path / "model.safetensors")
    checkpoint = open_checkpoint(tmp_path)
    assert _same({path: checkpoint.stored(path) for path in model.arrays}, model.arrays)
    pretrainer = ReplacedTokenPretrainer(model.config, make_generator_config(model.config, 0.34))
    report = assign_weights(checkpoint, pretrainer.variables, ("generator/.*",))  # as pretraining starts from a release
    assert {path for path in model.arrays if path.startswith("cls/")} <= set(report.loaded)
    other = dataclasses.replace(model, config=dataclasses.replace(model.config, replaced_token_context=False))
    with pytest.raises(ValueError, match="requires replaced_token_context=True for this model_type"):
        writers.write_model(tmp_path, "huggingface", other)


def test_a_mask_decoder_which_transformers_lacks(tmp_path):
    model = models.model("deberta", "masked_lm")
    config = dataclasses.replace(model.config, enhanced_mask_decoder=True)
    table = {"cls/predictions/position_embeddings": np.ones((20, config.hidden_size), np.float32)}
    model = dataclasses.replace(model, config=config, arrays={**model.arrays, **table})
    with pytest.raises(ValueError, match="requires enhanced_mask_decoder=False .* `leave_out=cls/predictions/"):
        writers.write_model(tmp_path, "huggingface", model)
    writers.write_model(tmp_path, "bert_tf", model)
    assert EncoderConfig.load(tmp_path) == config
    checkpoint = open_checkpoint(tmp_path)
    assert _same({path: checkpoint.stored(path) for path in model.arrays}, model.arrays)


def test_a_text_read_by_the_mean_where_others_read_the_first_token(tmp_path):
    config = dataclasses.replace(models.config("bert"), classifier_pooling="mean")
    text = dataclasses.replace(models.model("bert", "text"), config=config)
    for form, message in (
        ("huggingface", "This model has classifier_pooling='mean' with classifier; use the format bert_tf."),
        ("tf1", "This model has classifier_pooling='mean'"),
        ("keras_hub", "This model has classifier_pooling='mean'"),
    ):
        with pytest.raises(ValueError, match=message):
            writers.write_model(tmp_path, form, text)
    encoder = dataclasses.replace(models.model("bert", "encoder"), config=config)
    written = writers.write_model(tmp_path, "huggingface", encoder)
    assert written.remarks == ("Transformers computes pooler_output from the first token, not from the mean of all.",)
    assert EncoderConfig.load(tmp_path) == dataclasses.replace(config, extra=EncoderConfig.load(tmp_path).extra)


def _paths_of_post_norm():
    return models.arrays(models.config("bert-odd"), "encoder")


def test_a_head_that_transformers_computes_otherwise(tmp_path):
    model = models.model("roberta", "masked_lm")
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, hidden_act="relu"))
    with pytest.raises(ValueError, match="uses gelu. This model has hidden_act='relu'"):
        writers.write_model(tmp_path, "huggingface", model)


@pytest.mark.parametrize("case", ["roberta", "electra"])
def test_a_masked_lm_head_whose_activation_differs_in_transformers_is_not_read(case, tmp_path):
    writers.write_model(tmp_path, "huggingface", models.model(case, "masked_lm"))
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    head, kernel = "cls/predictions/transform/dense/kernel", "bert/encoder/layer_0/output/dense/kernel"
    assert open_checkpoint(tmp_path).get(head).ndim == 2
    text = json.dumps(values | {"hidden_act": "relu"})
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"The masked-LM head in .* hidden_act, relu\. Use .*`leave_out=cls/\.\*`"):
        open_checkpoint(tmp_path).get(head)
    assert open_checkpoint(tmp_path).get(kernel).shape == (20, 12)  # for a model without that head
    (tmp_path / "bert_config.json").write_text(text, encoding="utf-8")  # of bert_tf, whose head has this activation
    assert open_checkpoint(tmp_path).get(head).ndim == 2


def test_two_heads_that_no_class_has():
    paths = [*models.arrays(models.config("bert"), "text"), *models.arrays(models.config("bert"), "masked_lm")]
    with pytest.raises(ValueError, match="got classifier and cls/predictions; drop some of them"):
        architecture_of(paths)


def test_an_optimizer_needs_a_place():
    model = models.model("bert", "text", optimizer={"global_step": np.int64(3)})
    with pytest.raises(ValueError, match="`with_optimizer` requires .* tf1 or bert_tf; got huggingface."):
        writers.write_model("", "huggingface", model)
