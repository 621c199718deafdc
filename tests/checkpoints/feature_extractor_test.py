"""Features of texts: each choice of layers and pooling by hand, whatever the batch; tokens slice the text."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.models.pooling import LayerSum, pool
from bert_tf.utils.names import LAYERS, POOLINGS
from tests import tiny
from tests.fake_pandas import DataFrame, Series

TEXTS = ["good film", "", "the  Film is dull , cold and empty .", "a story", "great people and music to see"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return bert_tf.load(tiny.checkpoint(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A model of as many layers as the choices need."""
    return bert_tf.load(tiny.checkpoint(tmp_path_factory.mktemp("deep"), num_hidden_layers=4))


def hidden(bert, text):
    """Returns the embeddings and each block's output for a text alone, [S, H] each."""
    outputs = bert.encoder(bert.tokenizer([text], max_seq_length=32))
    length = int(bert.tokenizer([text], max_seq_length=32)["input_mask"].numpy().sum())
    return [values.numpy()[0, :length] for values in (outputs["embedding_output"], *outputs["encoder_outputs"])]


BY_HAND = {
    "embeddings": lambda h: h[0],
    "second_to_last": lambda h: h[3],
    "last": lambda h: h[4],
    "weighted_sum_last_4": lambda h: np.mean(h[1:], 0),
    "concat_last_4": lambda h: np.concatenate(h[1:], -1),
    "weighted_sum_all": lambda h: np.mean(h[1:], 0),
    (-1, 0): lambda h: np.concatenate([h[4], h[1]], -1),
}


# For each a graph is made.
_LONG = ("embeddings", "second_to_last", "last", "weighted_sum_last_4", "concat_last_4", "weighted_sum_all")


@pytest.mark.slow
@pytest.mark.parametrize(
    "layers", [pytest.param(each, marks=pytest.mark.slow) if each in _LONG else each for each in BY_HAND]
)
def test_each_choice_of_layers(deep, layers):
    found = deep.features(TEXTS, layers=layers, pooling="mean")
    expected = [BY_HAND[layers](hidden(deep, text)).mean(0) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for text, each in zip(TEXTS, deep.features(TEXTS, layers=layers, pooling=None), strict=True):
        np.testing.assert_allclose(each.values, BY_HAND[layers](hidden(deep, text)), atol=1e-5)
    assert set(LAYERS) <= set(BY_HAND)


def test_vectors_that_are_not_numbers_are_refused(bert):
    """As an encoder in float16 may give them, whose weights are finite."""
    table = bert.encoder.embeddings.word_embeddings
    before = tf.identity(table)
    table.assign(tf.where(tf.range(len(before))[:, None] == bert.tokenizer.vocab.index("music"), np.nan, before))
    try:
        assert np.isfinite(bert.features(["a story"], layers="embeddings")).all()
        for pooling in ("mean", None):
            message = "outputs NaN or infinity for 1 of [13] examples, the first of them example 1 .* Use float32:"
            with pytest.raises(ValueError, match=message):
                bert.features(["a story", "good music", "film"], layers="embeddings", pooling=pooling)
    finally:
        table.assign(before)


POOLED_BY_HAND = {
    "cls": lambda v: v[0],
    "mean": lambda v: v.mean(0),
    "max": lambda v: v.max(0),
    "mean_max": lambda v: np.concatenate([v.mean(0), v.max(0)]),
    "mean_sqrt_len": lambda v: v.sum(0) / np.sqrt(len(v)),
    "weighted_mean": lambda v: (v * np.arange(1, len(v) + 1)[:, None]).sum(0) / np.arange(1, len(v) + 1).sum(),
    "last_token": lambda v: v[-1],
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_pooling(pooling):
    values = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32) - 3  # all maxima below the padding's 0
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    values[0, 3:] = 0
    expected = [POOLED_BY_HAND[pooling](values[0, :3]), POOLED_BY_HAND[pooling](values[1])]
    np.testing.assert_allclose(pool(pooling, tf.constant(values), mask), expected, rtol=1e-5)


def test_pieces_slice_the_text(bert):
    text = TEXTS[2]
    features = bert.features([text], pooling=None)[0]
    own = [text[a:b].lower() for a, b in zip(features.starts[1:-1], features.ends[1:-1], strict=True)]
    assert features.tokens == ["[CLS]", *own, "[SEP]"] and own[:3] == ["the", "film", "is"]
    assert features.starts[0] == features.ends[0] == features.ends[-1] == 0


def test_long_texts_are_cut(bert):
    features = bert.features(["film " * 9], pooling=None, max_seq_length=4)[0]
    assert features.tokens == ["[CLS]", "film", "film", "[SEP]"] and features.starts.tolist() == [0, 0, 5, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "top"}, "`layers` must be one of embeddings, .*got 'top'"),
        ({"layers": [-1, 1]}, "from -1 to 0, because the model has 1 layer; got 1"),
        ({"layers": "concat_last_4"}, "a model with at least 4 layers, but this one has 1"),
        ({"layers": []}, "got none"),
        ({"pooling": "median"}, "`pooling` must be one or several of cls, mean, .*got 'median'"),
        ({"max_seq_length": 33}, "from 3 to 32, .*got 33"),
    ],
)
def test_unknown_choices(bert, options, message):
    with pytest.raises(ValueError, match=message):
        bert.features(["film"], **options)


def test_a_learned_sum_begins_as_the_mean():
    layers = list(np.random.default_rng(0).normal(size=(3, 2, 4, 5)).astype(np.float32))
    summed = LayerSum()
    np.testing.assert_allclose(summed(layers), np.mean(layers, 0), atol=1e-6)
    summed.layer_weights.assign([0.0, 50.0, 0.0])
    summed.gamma.assign(2.0)
    np.testing.assert_allclose(summed(layers), 2 * layers[1], atol=1e-5)


@pytest.mark.parametrize(
    "given",
    [Series(TEXTS, [4, 2, 0, 1, 3]), iter(TEXTS), [text.encode() for text in TEXTS]],
    ids=["Series", "iter", "bytes"],
)
def test_features_follow_the_order_and_not_an_index(bert, given):
    np.testing.assert_array_equal(bert.features(given), bert.features(TEXTS))


def test_pairs_are_one_row(bert):
    pair = ("good film", "the  people see")
    features = bert.features([pair, ("a", "b " * 40)], pooling=None)[0]
    assert features.tokens == ["[CLS]", "good", "film", "[SEP]", "the", "people", "see", "[SEP]"]
    assert features.of_text.tolist() == [-1, 0, 0, -1, 1, 1, 1, -1]
    own = [pair[n][a:b] for n, a, b in zip(features.of_text, features.starts, features.ends, strict=True) if n >= 0]
    assert own == ["good", "film", "the", "people", "see"]
    row = bert.tokenizer(*([text] for text in pair), max_seq_length=8)
    np.testing.assert_allclose(features.values, bert.encoder(row)["sequence_output"][0], atol=1e-5)
    np.testing.assert_allclose(bert.features([pair]), [features.values.mean(0)], atol=1e-5)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("film", "`texts` must be several texts, such as a list; got one text, 'film'"),
        (DataFrame({"text": TEXTS, "label": TEXTS}), "got a DataFrame of text, label; choose one of them"),
        (["film", None], "must not have missing texts; got None at position 1; remove them"),
        (["film", ("a", "b")], "all strings, or all pairs of strings; got tuple at position 1"),
        ([("a", "b"), ("a", "b", "c")], "got tuple at position 1"),
    ],
)
def test_what_is_no_list_of_texts(bert, texts, message):
    for pooling in ("mean", None):
        with pytest.raises(ValueError, match=message):
            bert.features(texts, pooling=pooling)
