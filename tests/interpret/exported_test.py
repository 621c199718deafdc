"""What a served model tells of itself: the same as `bert_tf.inspect` does, of many texts, of the rows that count."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import inspect
from bert_tf.checkpoints.loading import Bert
from bert_tf.interpret import exported
from bert_tf.interpret.exported import attention_in_graph, attributions_in_graph, encoder_in
from bert_tf.interpret.exported_targets import head_in
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.harness import randomize
from tests.interpret.models import with_words

TEXTS = ["The films, a story", "bad"]
LENGTH = 16


class Explained:
    """A task's model as `bert_tf.load` would give it, and as an export has it.

    Args:
        task: a task.
    """

    def __init__(self, task):
        keras.utils.set_random_seed(1)
        self.task, self.model, self.tokenizer = task, task.build_model(), WordPieceTokenizer(tiny.VOCAB)
        self.encoder = encoder_in(self.model)
        randomize(self.encoder)
        self.head, self.graph = head_in(self.model, task), None
        layer, spans = self.head.head, "cls" in self.head.head.variables[0].path
        others = {each.path: each.numpy() for each in layer.variables} if spans else {}
        self.bert = Bert(task.config, self.tokenizer, self.encoder, None if spans else layer, task.labels, others)

    def attributions(self, *given):
        """Returns the answer to texts and targets, the last of `given`."""
        return attributions_in_graph(
            self.encoder, self.head, self.tokenizer, self.task.preprocess, given[:-1], given[-1], LENGTH
        )

    def explain(self, *texts, target=None):
        """Returns the answer of the signature as arrays."""
        asked = [""] * len(texts[0]) if target is None else target
        if self.graph is None:  # one for all requests, as an export has it
            specs = [tf.TensorSpec([None], tf.string)] * (1 + len(texts))
            self.graph = tf.function(self.attributions, specs, autograph=False)
        found = self.graph(*(tf.constant(each, tf.string) for each in (*texts, asked)))
        return {name: values.numpy() for name, values in found.items()}


@pytest.fixture(scope="module")
def classifier():
    return Explained(ClassificationTask(tiny.config(), 2, labels=["bad", "good"]))


@pytest.fixture(scope="module")
def tagger():
    config = tiny.config()
    config.extra["architectures"] = ["BertForTokenClassification"]
    return Explained(TaggingTask(config, ["B-PER", "I-PER", "O"], doc_stride=5))


@pytest.fixture(scope="module")
def reader():
    return Explained(QuestionAnsweringTask(tiny.config(), 5, 30, 5, 4))


def check(got, k, why):
    """Compares row k of an answer with what `inspect.attributions` says of the text alone."""
    S = len(why)
    assert [token.decode() for token in got["token"][k]] == why.tokens + [""] * (got["token"].shape[1] - S)
    for name, expected in (("start", why.starts), ("end", why.ends), ("of_text", why.of_text)):
        assert got[name][k, :S].tolist() == expected.tolist()
    np.testing.assert_allclose(got["attribution"][k, :S], why.values, atol=1e-5)
    assert not got["attribution"][k, S:].any() and (got["of_text"][k, S:] == -1).all()
    assert got["target"][k].decode() == why.target and got["steps"][k] == why.steps
    for name, terms in (("score", 1), ("baseline_score", 1), ("gap", S)):  # the gap has the rounding of all S values
        assert got[name][k] == pytest.approx(getattr(why, name), abs=1e-5 * terms)


@pytest.mark.slow
def test_labels_are_explained_in_a_graph_as_inspect_does(classifier):
    got = classifier.explain(TEXTS)
    for k, why in enumerate(inspect.attributions(classifier.bert, TEXTS)):
        check(got, k, why)
    assert np.abs(got["attribution"]).max() > 0.01
    other = {b"bad": "good", b"good": "bad"}[got["target"][0]]
    check(classifier.explain(TEXTS[:1], target=[other]), 0, inspect.attributions(classifier.bert, TEXTS[:1], other)[0])
    assert {values.shape[0] for values in classifier.explain(tf.zeros([0], tf.string), target=tf.zeros([0], tf.string))
            .values()} == {0}  # fmt: skip


@pytest.mark.slow
def test_values_of_pairs():
    regression = Explained(ClassificationTask(tiny.config(), 1, "regression"))
    pairs = TEXTS, ["is good", ""]
    got = regression.explain(*pairs)
    for k, why in enumerate(inspect.attributions(regression.bert, pairs[0], pairs=pairs[1])):
        check(got, k, why)
    assert got["target"].tolist() == [b"0"] * 2


@pytest.mark.slow
def test_tags_are_explained_in_a_graph_as_inspect_does(tagger):
    texts = [TEXTS[0], "", "people"]
    got = tagger.explain(texts)
    check(got, 2, inspect.attributions(tagger.bert, texts[2:])[0])
    assert got["target"][1] == b"" and not got["attribution"][1].any() and not got["score"][1]
    assert set(got["token"][1].tolist()) == {b""}
    named = tagger.explain(texts[:1], target=["4:9:B-PER"])
    check(named, 0, inspect.attributions(tagger.bert, texts[:1], [(1, "B-PER")])[0])


@pytest.mark.slow
def test_tags_beyond_the_first_row(tagger):
    text = "the film is good " * 8 + "people"
    assert len(text) == 142
    got = tagger.explain([text], target=["136:142:I-PER"])
    tokens = [token for token in got["token"][0].tolist() if token]
    place = len(tokens) - 2
    assert tokens[place] == b"people" and text[got["start"][0, place] : got["end"][0, place]] == "people"
    own = " ".join(token.decode() for token in tokens[1:-1])
    [why] = inspect.attributions(tagger.bert, [own], [(place - 1, "I-PER")])
    np.testing.assert_allclose(got["attribution"][0, : len(why)], why.values, atol=1e-5)


@pytest.mark.slow
def test_answers_are_explained_in_a_graph_as_inspect_does(reader):
    questions, contexts = ["is it good", "a"], [TEXTS[0], "music and people"]
    got = reader.explain(questions, contexts)
    for k, why in enumerate(inspect.attributions(reader.bert, questions, pairs=contexts)):
        check(got, k, why)
    named = reader.explain(questions, contexts, target=["4:9", "10:16"])
    assert named["target"].tolist() == [b"films", b"people"]
    check(named, 0, inspect.attributions(reader.bert, questions[:1], (4, 9), pairs=contexts[:1])[0])
    none = reader.explain(["is it good"], ["  "])
    assert none["target"].tolist() == [b""] and np.isfinite(none["gap"]).all()


@pytest.mark.slow
def test_an_answer_beyond_the_first_row(reader):
    context = "the film is good " * 8 + "people"
    got = reader.explain(["is it"], [context], target=["136:142"])
    assert got["target"].tolist() == [b"people"] and b"people" in got["token"][0]
    served = reader.task.postprocess(*_asked(reader, ["is it"], [context]))
    assert reader.explain(["is it"], [context])["target"] == served["answer"]


def _asked(explained, *texts):
    features, origin = explained.task.preprocess(explained.tokenizer, list(map(tf.constant, texts)), LENGTH)
    return explained.model({name: features[name] for name in explained.task.features}, training=False), origin


@pytest.mark.parametrize(
    ("which", "texts", "target", "message"),
    [
        ("classifier", [["a"]], ["ugly"], r"must be a label of this model: bad, good, or empty"),
        ("tagger", [["a film"]], ["film"], r"a word's offsets in the text, .* another value"),
        ("tagger", [["a film"]], ["7:9"], r"got offsets without a word"),
        ("tagger", [["a film"]], ["2:6:B-LOC"], r"must be a tag of this model: B-PER, I-PER, O, or"),
        ("reader", [["a"], ["film"]], ["4"], r"an answer's offsets in the context, .* another value"),
        ("reader", [["a"], ["film"]], ["4:6"], "got offsets without a token."),
    ],
)
def test_targets_that_do_not_exist_are_refused(request, which, texts, target, message):
    """Nothing of this hangs on the graph, which takes long to trace."""
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        request.getfixturevalue(which).attributions(*map(tf.constant, (*texts, target)))


def test_attention_in_a_graph_is_that_of_inspect():
    bert = with_words(num_hidden_layers=2, num_attention_heads=4, pruned_heads={0: (1, 2)})
    layers = tf.constant([[1, 0], [-1, -2]])
    got = attention_in_graph(bert.encoder, bert.tokenizer, [tf.constant(TEXTS)], layers, LENGTH)
    weights = got["attention"].numpy()
    assert weights.shape == (2, 2, 4, 8, 8) and weights.dtype == np.float32
    for k, seen in enumerate(inspect.attention(bert, TEXTS)):
        S = len(seen)
        np.testing.assert_allclose(weights[k, ..., :S, :S], seen.weights[layers[k].numpy()], atol=1e-6)
        assert not weights[k, ..., S:, :].any() and not weights[k, ..., S:].any()
        assert [token.decode() for token in got["token"][k].numpy()] == seen.tokens + [""] * (8 - S)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be from 0 to 1, or from -1, the last, to -2"):
        attention_in_graph(bert.encoder, bert.tokenizer, [tf.constant(["a"])], tf.constant([[2]]), LENGTH)


@pytest.fixture(scope="module")
def traced_attention():
    """The graph of a model of 2 layers and 4 heads as an export has it, with at most 2^12 weights at a time."""
    bert = with_words(num_hidden_layers=2, num_attention_heads=4)

    specs = [tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int32)]

    @tf.function(input_signature=specs, autograph=False)
    def attention(text, layers):
        return attention_in_graph(bert.encoder, bert.tokenizer, [text], layers, 32)["attention"]

    with pytest.MonkeyPatch.context() as patch:
        for end in ("_MOST_WEIGHTS", "_MOST_ASKED"):
            patch.setattr(exported, end, 2**12)
        yield attention.get_concrete_function()


_S = 4  # tokens of "bad bad"
_MANY = 2**12 // (2 * 4 * _S * _S)  # such texts, whose weights are 2^12


@pytest.mark.slow
def test_attention_costs_no_more_than_the_layers_that_there_are(traced_attention):
    twice = traced_attention(tf.constant(["bad"]), tf.constant([[-1, -1]])).numpy()  # one layer twice is two at most
    assert twice.shape[:2] == (1, 2) and (twice[0, 0] == twice[0, 1]).all()
    many = traced_attention(tf.constant(["bad bad"] * _MANY), tf.zeros([_MANY, 1], tf.int32))
    assert many.shape == (_MANY, 1, 4, _S, _S)
    long = traced_attention(tf.constant(["bad " * 30]), tf.constant([[0]]))
    assert long.shape == (1, 1, 4, 32, 32)  # one text is always answered: 8,192 weights, of which 4,096 are asked for


_TWICE = "`layers` must name at most 2 layers per text, the number of layers; got"


@pytest.mark.parametrize(
    ("texts", "layers", "message"),
    [
        (["bad"], [0] * 3, rf"{_TWICE}(?s:.*)3"),
        (["bad"], [0] * 100, rf"{_TWICE}(?s:.*)100"),
        (["bad bad"] * (_MANY + 1), [0],
         rf"together may have at most {2**12} attention weights; got(?s:.*){(_MANY + 1) * 2 * 4 * _S * _S}"),
        (["bad " * 30], [0, 1], rf"requested layers may have at most {2**12} attention(?s:.*){2**13}"),
    ],
    ids=["a layer too many", "many layers", "many texts", "a large answer"],
)  # fmt: skip
def test_attention_is_refused_before_it_is_computed(traced_attention, texts, layers, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        traced_attention(tf.constant(texts), tf.constant([layers] * len(texts)))


def test_attributions_are_for_a_few_texts_at_a_time(classifier):
    message = r"A request for explanations may have at most 16 texts; got(?s:.*)17"
    for targets in ([""] * 17, [""]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            classifier.attributions(tf.constant(["bad"] * 17), tf.constant(targets))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (EmbeddingTask, "requires .*a model for embedding has no such head. Remove attributions"),
        (MultipleChoiceTask, "requires .*a model for multiple_choice has no such head"),
        (lambda c: ClassificationTask(c, 2, lstm_units=4), "requires .*a model for classification has no such head"),
        (lambda c: ClassificationTask(c, 2, windows={"stride": 5, "max_windows": 4}), "cannot explain.* averages over"),
    ],
)
def test_models_without_attributions(task, message):
    task = task(tiny.config())
    with pytest.raises(ValueError, match=f"`export_explanations=attributions` {message}"):
        head_in(task.for_serving(task.build_model()), task)
