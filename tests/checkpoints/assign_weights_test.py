"""Weights are assigned by name and shape, and what is missing is reported."""

import numpy as np
import pytest

from bert_tf.checkpoints import tf1
from bert_tf.checkpoints.assign_weights import LoadReport, assign_weights
from tests.checkpoints import fakes


@pytest.fixture(scope="module")
def weights():
    return fakes.pretraining_weights()


@pytest.fixture
def directory(tmp_path, weights):
    return fakes.save_hugging_face(tmp_path / "hf", fakes.to_hugging_face(weights))


def _loaded(variables):
    return {v.path: v.value for v in variables if v.value is not None}


def test_everything_comes_in(directory, weights):
    variables = fakes.variables_for(weights)
    report = assign_weights(directory, variables)
    assert {path: value.tolist() for path, value in _loaded(variables).items()} == {
        path: value.tolist() for path, value in weights.items()
    }
    assert sorted(report.loaded) == sorted(weights)
    assert str(report) == f"Loaded 46 variables from {directory}/model.safetensors."


def test_keras_variables(directory, weights):
    variables = fakes.keras_variables_for({path: np.zeros_like(array) for path, array in weights.items()})
    assign_weights(directory, variables)
    for variable in variables:
        np.testing.assert_array_equal(np.asarray(variable), weights[variable.path])


def test_both_lists_are_printed_whole_and_nothing_is_assigned(tmp_path, weights):
    tensors = fakes.to_hugging_face(weights)
    del tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"]
    tensors["lm_head.bias"] = np.zeros(3, np.float32)
    folder = fakes.save_hugging_face(tmp_path, tensors)
    variables = [v for v in fakes.variables_for(weights) if not v.path.startswith("cls/seq")]
    variables += [fakes.FakeVariable("classifier/output_weights", [2, 4])]
    with pytest.raises(ValueError) as error:
        assign_weights(folder, variables, allow_unmatched=["classifier/.*"])
    assert str(error.value) == (
        f"The weights of the model and the checkpoint {folder}/model.safetensors (safetensors) do not match, apart "
        "from heads that may be new or unused: 42 are in both, and\n"
        "  3 in the model but missing in the checkpoint:\n"
        "    bert/pooler/dense/kernel\n    bert/pooler/dense/bias\n    classifier/output_weights (excused)\n"
        "  3 in the checkpoint but not in the model:\n"
        "    cls/seq_relationship/output_bias\n    cls/seq_relationship/output_weights\n    lm_head.bias\n"
        "Use bert-tf convert with `leave_out=cls/seq_relationship/output_bias` and so on, one pattern per left-over "
        "weight, to make a copy without them if the missing weights are optional."
    )
    assert _loaded(variables) == {}


def test_excuses(directory, weights):
    encoder = {path: array for path, array in weights.items() if path.startswith("bert/")}
    head = [fakes.FakeVariable("classifier/output_weights", [3, 4]), fakes.FakeVariable("classifier/output_bias", [3])]
    variables = fakes.variables_for(encoder) + head
    report = assign_weights(directory, variables, allow_unmatched=["classifier/.*", "cls/.*"])
    assert set(_loaded(variables)) == set(report.loaded) == set(encoder)
    assert report.allowed_missing == ["classifier/output_weights", "classifier/output_bias"]
    assert len(report.allowed_unused) == 7
    assert str(report) == (
        f"Loaded 39 variables from {directory}/model.safetensors; 2 not in the checkpoint, randomly initialized: "
        "classifier/output_weights, classifier/output_bias; 7 in the checkpoint, not used: "
        "cls/predictions/output_bias, cls/predictions/transform/LayerNorm/beta, "
        "cls/predictions/transform/LayerNorm/gamma, "
        "cls/predictions/transform/dense/bias, ..."
    )


def test_what_is_no_weight_is_named_in_plain_words():
    def said(*names):
        return str(LoadReport("m.bin", ["a", "b"], [], [], list(names))).removeprefix("Loaded 2 variables from m.bin")

    one = "; 1 entry skipped because it is not a weight (a buffer, a counter or a second name): position_ids."
    assert said("position_ids") == one
    assert said("step", "v", "w", "x", "y") == (
        "; 5 entries skipped because they are not weights (optimizer state, counters, second names): "
        "step, v, w, x, ..."
    )


def test_an_excuse_must_match_the_whole_path(directory, weights):
    variables = [v for v in fakes.variables_for(weights) if v.path != "cls/seq_relationship/output_bias"]
    message = "not in the model:\n    cls/seq_relationship/output_bias\nUse bert-tf convert with `leave_out=cls/seq"
    with pytest.raises(ValueError, match=message):
        assign_weights(directory, variables, allow_unmatched=["cls/seq", "output_bias"])


def test_another_vocabulary(directory, weights):
    variables = fakes.variables_for(weights)
    variables[0].shape = (12, 4)
    assert variables[0].path == "bert/embeddings/word_embeddings"
    with pytest.raises(ValueError) as error:
        assign_weights(directory, variables)
    assert str(error.value).endswith(
        "1 of 46 variables:\n    bert/embeddings/word_embeddings: (12, 4) in the model, (11, 4) in the "
        "checkpoint (rows = vocabulary size: do vocab.txt and vocab_size belong to this checkpoint?)"
    )
    assert _loaded(variables) == {}


def test_an_untied_output_layer(tmp_path, weights):
    tensors = fakes.to_hugging_face(weights)
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"] + 1
    folder = fakes.save_hugging_face(tmp_path, tensors)
    variables = fakes.variables_for(weights)
    with pytest.raises(ValueError, match="decoder.weight .* must be equal to bert.embeddings.word_embeddings.weight"):
        assign_weights(folder, variables)
    assert _loaded(variables) == {}
    encoder = [v for v in variables if v.path.startswith("bert/")]
    loaded = assign_weights(folder, encoder, allow_unmatched=["cls/.*"]).loaded
    assert len(loaded) == 39  # without that layer it does not matter
    (folder / "config.json").write_text('{"tie_word_embeddings": false}', encoding="utf-8")
    own = fakes.FakeVariable("cls/predictions/output_weights", (11, 4))
    assert own.path in assign_weights(folder, [*variables, own]).loaded
    with pytest.raises(ValueError, match="not in the model:\n    cls/predictions/output_weights"):
        assign_weights(folder, variables)


def test_a_head_of_another_size_stays_fresh_where_it_may(tmp_path):
    head = {"classifier/output_weights": (2, 4), "classifier/output_bias": (2,)}
    variables = [fakes.FakeVariable(path, shape) for path, shape in head.items()]
    prefix = str(tmp_path / "model.ckpt-1")
    tf1.write_tensors(prefix, {"output_weights": np.ones((3, 4), np.float32), "output_bias": np.zeros(3, np.float32)})
    report = assign_weights(prefix, variables, allow_unmatched=["classifier/.*"])
    assert report.loaded == []
    assert sorted(report.allowed_missing) == sorted(report.allowed_unused) == sorted(head)
    with pytest.raises(ValueError, match="Some shapes differ"):
        assign_weights(prefix, variables)
