"""Multiple choice: files of questions, a sequence for each choice, the loss and the probabilities by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tasks.multiple_choice.data import ChoiceExamples, encode_choices
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.text_lists import encode_served_lists
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.batching import BatchSettings
from tests import tiny
from tests.tasks.multiple_choice import support


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(tiny.VOCAB)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return MultipleChoiceTask(tiny.config(initializer_range=1.0)).build_model()


def examples(questions):
    contexts, choices, labels = (list(part) for part in zip(*questions, strict=True))
    lines = list(range(1, len(contexts) + 1))
    return ChoiceExamples([str(i) for i in lines], contexts, choices, labels, "questions.jsonl", lines)


def test_a_choice_is_a_pair_of_context_and_choice(tokenizer):
    rows = encode_choices(tokenizer, examples([("a film", ["is good", "bad"], 1), ("it", ["the story"] * 3, 0)]), 16)
    pieces = [tiny.VOCAB[i] for i in rows.rows.features["input_ids"]]
    bounds = zip(rows.rows.splits, rows.rows.splits[1:], strict=False)
    assert [" ".join(pieces[first:limit]) for first, limit in bounds] == [
        "[CLS] a film [SEP] is good [SEP]", "[CLS] a film [SEP] bad [SEP]", *["[CLS] it [SEP] the story [SEP]"] * 3
    ]  # fmt: skip
    assert rows.splits.tolist() == [0, 2, 5] and rows.targets["label_ids"].tolist() == [1, 0]
    assert rows.rows.features["segment_ids"][:7].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_what_is_too_long_is_cut_as_pairs_are(tokenizer):
    rows = encode_choices(tokenizer, examples([("film " * 20, ["good " * 20, "bad"], 0)]), 9)
    for i, choice in enumerate(["good " * 20, "bad"]):
        expected = tokenizer(["film " * 20], [choice], 9)["input_ids"].numpy()[0]
        start, limit = rows.rows.splits[i : i + 2]
        np.testing.assert_array_equal(rows.rows.features["input_ids"][start:limit], expected)


def test_the_loss_is_that_of_a_softmax_over_the_choices_there_are(tokenizer, model):
    given, task = support.questions(6, seed=1, counts=(2, 6)), MultipleChoiceTask(tiny.config())
    rows = encode_choices(tokenizer, examples(given), 16)
    assert len(set(np.diff(rows.splits))) > 2  # or nothing would be missing
    scoring = BatchSettings(16).scoring(rows, 4)
    alone = [
        model({name: values[tf.newaxis] for name, values in tokenizer([c] * len(texts), texts, 16).items()})[0].numpy()
        for c, texts, _ in given
    ]
    chances = [np.exp(each - each.max()) / np.exp(each - each.max()).sum() for each in alone]
    losses, collected = [], []
    for batch in scoring.batches():
        logits = model({name: batch[name] for name in task.features})
        values, weights = task.example_losses(logits, batch)
        assert weights.numpy().tolist() == [1] * len(weights)
        losses += values.numpy()[batch["is_real_example"] > 0].tolist()
        collected.append(task.reduce_outputs(logits, batch).numpy())
    order = [i for i in scoring.order.reshape(-1) if i >= 0]
    expected = [-np.log(chances[i][given[i][2]]) for i in order]
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)
    found = [row for part in collected for row in part]
    for row, i in zip(found, order, strict=False):
        np.testing.assert_allclose(row[: len(chances[i])], chances[i], rtol=1e-4, atol=1e-6)
        assert not row[len(chances[i]) :].any()


def test_what_is_served_is_encoded_as_files_are(tokenizer, model):
    given = support.questions(5, seed=2, counts=(2, 6))
    contexts = [context for context, _, _ in given]
    most = max(len(choices) for _, choices, _ in given)
    even = [choices + ["", " \t"][: most - len(choices)] + [""] * (most - 2 - len(choices)) for _, choices, _ in given]
    assert all(len(choices) == most for choices in even)
    served = encode_served_lists(tokenizer, contexts, even, 12)  # run_multiple_choice_test asks an export, too
    rows = encode_choices(tokenizer, examples(given), 12)
    (batch,) = BatchSettings(12, by_length=False).scoring(rows, 5).batches()
    task = MultipleChoiceTask(tiny.config())
    expected = task.postprocess(model({name: batch[name] for name in task.features}))
    found = task.postprocess(model(served))
    np.testing.assert_array_equal(found["choice"], expected["choice"])
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"][:, :most], atol=1e-5)
    for i, (_, choices, _) in enumerate(given):
        assert not found["probabilities"].numpy()[i, len(choices) :].any()


@pytest.mark.parametrize("contexts, choices, choice, shape", [
    (["a", "it"], [["", " "], ["", "bad"]], [-1, 1], (2, 2)),
    (["a"], np.zeros([1, 0], str), [-1], (1, 1)),
    ([], np.zeros([0, 3], str), [], (0, 3)),
])  # fmt: skip
def test_without_anything_to_choose(tokenizer, model, contexts, choices, choice, shape):
    texts = tf.constant(contexts, tf.string), tf.constant(np.asarray(choices).tolist(), tf.string, np.shape(choices))
    features, origin = MultipleChoiceTask(tiny.config()).preprocess(tokenizer, texts, 12)
    answer = MultipleChoiceTask(tiny.config()).postprocess(model(features), origin)
    assert answer["choice"].numpy().tolist() == choice and answer["probabilities"].shape == shape


@pytest.mark.slow
def test_compiled_and_without_the_rows_that_are_none_the_model_is_the_same(tokenizer, model):
    features = encode_served_lists(tokenizer, ["a", "film"], [["good", "bad", ""], ["it", "", "story"]], 12)
    every = MultipleChoiceTask(tiny.config(initializer_range=1.0), every_window=True).build_model()
    every.set_weights(model.get_weights())
    compiled = tf.function(lambda features: every(features), jit_compile=True)
    np.testing.assert_allclose(compiled(features), model(features), rtol=1e-4, atol=1e-4)


def test_the_variables_are_those_of_a_classifier_of_one_output(model):
    paths = {variable.path: tuple(variable.shape) for variable in model.variables}
    assert paths["classifier/output_weights"] == (1, 32) and paths["classifier/output_bias"] == (1,)
    assert "bert/pooler/dense/kernel" in paths
