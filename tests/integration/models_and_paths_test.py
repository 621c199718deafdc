"""Where a loaded model is expected, a path loads it or the message names what does; and the other way round."""

import numpy as np
import pytest

import bert_tf
from bert_tf.export.hub.export import export_hub
from bert_tf.inference.fill_mask import Filler
from bert_tf.inference.reranker import Reranker
from bert_tf.inference.score_text import TextScorer
from bert_tf.inference.search import SearchIndex
from bert_tf.serving.verification import verify
from tests import tiny

TEXTS = ["a good film"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def bert(path):
    return bert_tf.load(path)


@pytest.mark.slow
def test_a_path_stands_for_the_model_that_it_holds(path, bert, tmp_path):
    inspect = bert_tf.inspect
    of_path, of_model = (inspect.attention(model, TEXTS)[0].weights for model in (str(path), bert))
    np.testing.assert_array_equal(of_path, of_model)
    without = inspect.ablate_heads(path, {0: [1]})
    assert not inspect.attention(without, TEXTS)[0].weights[0, 1].any()
    seen = [bert_tf.visualize(model, *TEXTS, views=["inputs"]).page for model in (path, bert)]
    assert seen[0] == seen[1]
    proofs = [bert_tf.save(model, tmp_path / name) for name, model in (("of_path", path), ("of_model", bert))]
    assert proofs[0].matched == proofs[1].matched and set(proofs[0].differences.values()) == {0.0}
    ids = [bert_tf.TokenizerLayer(each)(TEXTS)["input_ids"] for each in (path, bert.tokenizer)]
    np.testing.assert_array_equal(*ids)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda path: bert_tf.Encoder(str(path)), r"class str\. For the encoder of a checkpoint, use `bert_tf\.load\("),
        (lambda path: bert_tf.EncoderConfig(str(path)), r"vocab_size must be .* pass it to EncoderConfig\.load"),
        (lambda path: bert_tf.EncoderConfig.from_dict(path), r"an object of class PosixPath\. EncoderConfig\.l"),
        (bert_tf.WordPieceTokenizer, r"tiny is a directory\. Name the file in it, or use `bert_tf\.load\("),
        (lambda path: bert_tf.HubLayer(path), r"has no saved_model\.pb\. .*export_hub` writes one"),
        (lambda path: bert_tf.inspect.attributions(path, TEXTS), "require a head for labels.*; .*tiny has no such"),
        (lambda path: bert_tf.inspect.logit_lens(path, TEXTS), "must have a masked-LM head; .*tiny does not have"),
        (lambda path: bert_tf.inspect.attributions(path / "none", TEXTS), "Checkpoint not found: .*none"),
        (lambda path: bert_tf.inspect.attributions(None, TEXTS), "its path, an `Encoder`, .*class NoneType. Pass"),
        (lambda path: bert_tf.visualize(object(), "a"), "`model` must be .*its path.*class object. Pass the path"),
    ],
)  # fmt: skip
def test_what_takes_no_path_says_what_does(path, function, message):
    with pytest.raises(ValueError, match=message):
        function(path)


@pytest.mark.parametrize(
    "function",
    [
        bert_tf.SentenceEncoder, bert_tf.HubLayer, bert_tf.WordPieceTokenizer, bert_tf.TokenizerLayer,
        bert_tf.EncoderConfig.load, TextScorer, Filler, Reranker, SearchIndex, verify,
        lambda model: bert_tf.sklearn.BertEmbedder(model).fit(TEXTS),
        lambda model: bert_tf.sklearn.BertClassifier(model).fit(["a", "b"], [0, 1]),
        lambda model: SearchIndex.create("none", model),
    ],
)  # fmt: skip
def test_what_takes_a_path_says_so_of_a_loaded_model(path, bert, function):
    with pytest.raises(ValueError, match=f"must be a path; got an object of class Bert. Pass '{path}'."):
        function(bert)
    with pytest.raises(ValueError, match="must be a path; got an object of class Encoder. Pass a directory or a"):
        function(bert.encoder)


@pytest.mark.parametrize("function", [bert_tf.load, lambda model: export_hub(model, "none")])
def test_what_also_takes_other_models_says_so(bert, function):
    with pytest.raises(ValueError, match="`path` must be the path of a checkpoint, or a KerasHub backbone.*class Bert"):
        function(bert)


def test_an_encoder_alone_cannot_be_saved_or_shown(bert, tmp_path):
    with pytest.raises(ValueError, match=r"`bert` must be a model from `bert_tf\.load`, or the path .*class Encoder"):
        bert_tf.save(bert.encoder, tmp_path / "out")
    with pytest.raises(ValueError, match="An encoder alone has no tokenizer"):
        bert_tf.visualize(bert.encoder, "a")
