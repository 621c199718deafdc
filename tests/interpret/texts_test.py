"""What is inside a model with a vocabulary: tokens and words, what is asked for on demand, targets, errors."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import inspect
from bert_tf.interpret.lens import masked_lm_head
from bert_tf.models.heads import ClassificationHead, QuestionAnsweringHead
from bert_tf.models.pretraining_heads import MaskedLMHead
from tests import tiny
from tests.interpret.models import with_words

TEXT = "The films, a story"


@pytest.fixture(scope="module")
def bert():
    """A classifier of two labels."""
    return with_words(ClassificationHead(2, 0.0), ["bad", "good"])


def _others(layer, config):
    """Returns the weights of a head, random ones, by path."""
    import keras

    with keras.name_scope("cls"):
        layer.build((None, None, config.hidden_size))
    rng = np.random.default_rng(3)
    return {each.path: rng.standard_normal(each.shape).astype(np.float32) for each in layer.variables}


def test_attention_of_a_pair_comes_with_tokens_and_words(bert):
    [row] = inspect.attention(bert, [(TEXT, "is good")])
    assert row.tokens == ["[CLS]", "the", "film", "##s", ",", "a", "story", "[SEP]", "is", "good", "[SEP]"]
    assert [word.text for word in row.words] == ["The", "films", ",", "a", "story", "is", "good"]
    assert row.words[1] == inspect.Word("films", 4, 9, 0) and row.words[5] == ("is", 0, 2, 1)
    assert row.word_of_token.tolist() == [-1, 0, 1, 1, 2, 3, 4, -1, 5, 6, -1]
    assert row.of_text.tolist() == [-1] + 6 * [0] + [-1, 1, 1, -1] and row.segments.tolist() == 8 * [0] + 3 * [1]
    assert [TEXT[a:b] for a, b in zip(row.starts[1:4], row.ends[1:4], strict=True)] == ["The", "film", "s"]
    assert row.weights.shape == (1, 2, 11, 11) and row.weights.dtype == np.float32 and row.heads.all()
    np.testing.assert_allclose(row.weights.sum(-1), 1, atol=1e-6)
    assert row.of_words(np.arange(11.0)).tolist() == [1, 5, 4, 5, 6, 8, 9]
    [same] = inspect.attention((bert.encoder, bert.tokenizer), TEXT, pairs="is good")
    assert np.array_equal(same.weights, row.weights)


def test_blanks_have_places(bert):
    [row] = inspect.layers(bert, ["a [MASK] film"], masks=True)
    assert row.tokens == ["[CLS]", "a", "[MASK]", "film", "[SEP]"] and row.words[1] == ("[MASK]", 2, 8, 0)
    assert row.words[2] == ("film", 9, 13, 0)
    [text] = inspect.layers(bert, ["a [MASK] film"])
    assert "[MASK]" not in text.tokens


def test_neurons_give_the_weights(bert):
    [row] = inspect.neurons(bert, [TEXT])
    scores = row.scores(0, 1)
    np.testing.assert_allclose(np.exp(scores) / np.exp(scores).sum(-1, keepdims=True), row.weights[0, 1], atol=1e-5)
    np.testing.assert_allclose(row.products(0, 1, 2).sum(-1) / np.sqrt(16), scores[2], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("terms", [("c2p", "p2c"), ("p2c",)])
def test_scores_with_relative_positions_are_those_of_the_layer(terms, monkeypatch):
    settings = {"pos_att_type": terms, "position_buckets": 4, "position_biased_input": False}
    bert = with_words(num_hidden_layers=2, num_attention_heads=4, pruned_heads={0: (1,)}, **settings)
    computed, softmax = [], tf.nn.softmax
    monkeypatch.setattr(tf.nn, "softmax", lambda scores: computed.append(scores.numpy()[0]) or softmax(scores))
    [row] = inspect.neurons(bert, [TEXT])
    for layer, scores in enumerate(computed):
        kept = np.flatnonzero(row.heads[layer])
        np.testing.assert_allclose([row.scores(layer, head) for head in kept], scores, atol=1e-5)
    assert len(computed) == 2 and list(row.positions) == [*terms] and not row.positions["p2c"][0, 1].any()
    assert all(np.abs(term[1]).max() > 1e-3 for term in row.positions.values())


@pytest.mark.slow
def test_scores_with_a_bias_of_relative_positions_are_those_of_the_layer():
    heads = {"num_attention_heads": 4, "pruned_heads": {0: (1,)}}
    bert = with_words(num_hidden_layers=2, **heads, relative_attention_num_buckets=4, first_position=2)
    bert.encoder.relative.attention_bias.assign(np.random.default_rng(0).normal(size=(4, 4)))
    [row] = inspect.neurons(bert, [TEXT])
    assert list(row.positions) == ["bias"] and not row.positions["bias"][0, 1].any()
    for layer in range(2):
        for head in np.flatnonzero(row.heads[layer]):
            weights = np.exp(row.scores(layer, head))
            weights /= weights.sum(-1, keepdims=True)
            np.testing.assert_allclose(weights, row.weights[layer, head], atol=1e-5)


@pytest.mark.slow
def test_rotary_positions_and_local_attention():
    """Rotated queries and keys give the weights, in the second layer of the next tokens alone."""
    modern = with_words(ClassificationHead(2, 0.0), ["bad", "good"], **tiny.MODERNBERT)
    [row], [begin], [why] = (call(modern, [TEXT]) for call in (inspect.neurons, inspect.inputs, inspect.attributions))
    far = np.abs(np.subtract.outer(np.arange(8), np.arange(8))) > 1
    for layer, hidden in enumerate((np.zeros_like(far), far)):
        weights = np.where(hidden, 0, np.exp(row.scores(layer, 1)))
        np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), row.weights[layer, 1], atol=1e-5)
    assert begin.segment is None and begin.position is None
    np.testing.assert_allclose(begin.output, inspect.layers(modern, [TEXT])[0].values[0], atol=1e-5)
    assert why.word_values.sum() == pytest.approx(why.score - why.baseline_score, rel=0.01)


def test_layers_and_inputs(bert):
    [row], [begin] = inspect.layers(bert, [TEXT]), inspect.inputs(bert, [TEXT])
    np.testing.assert_allclose(begin.output, row.values[0], atol=1e-5)
    np.testing.assert_allclose(begin.token + begin.segment + begin.position, begin.total, atol=1e-6)
    assert begin.task is None
    itself = row.with_itself()
    assert itself.shape == (2, 2, 8) and np.allclose(itself[[0, 1], [0, 1]], 1, atol=1e-5)
    a, b = row.values[:, 3]
    other = row.values[1, 2]
    cosine = other @ b / np.linalg.norm(other) / np.linalg.norm(b)
    assert row.among_all(1)[2, 3] == pytest.approx(cosine, abs=1e-5)
    assert itself[0, 1, 3] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)


def test_heads_off_share_the_weights_and_leave_the_model(bert):
    [before], without = inspect.layers(bert, [TEXT]), inspect.ablate_heads(bert, {0: [1]})
    [after], [again] = inspect.layers(without, [TEXT]), inspect.layers(bert, [TEXT])
    assert np.abs(after.values[1] - before.values[1]).max() > 1e-3 and np.array_equal(again.values, before.values)
    assert without.head is bert.head and without._built is not bert._built
    both = inspect.ablate_heads(without, {0: [0]})
    [row] = inspect.attention(both, [TEXT])
    assert without.encoder.head_mask[0].tolist() == [1, 0] and not row.weights.any()
    assert inspect.attributions(both, [TEXT], steps=8)[0].gap < 0.01


@pytest.mark.slow
def test_pruned_heads_keep_their_numbers():
    pruned = with_words(num_hidden_layers=2, num_attention_heads=4, pruned_heads={0: (1, 2)}, norm_first=True)
    [row] = inspect.neurons(pruned, [TEXT])
    assert row.weights.shape == (2, 4, 8, 8) and np.flatnonzero(row.heads[0]).tolist() == [0, 3]
    assert not row.weights[0, 1].any() and not row.query[0, 2].any() and row.weights[0, 3].any()
    assert not inspect.attention(inspect.ablate_heads(pruned, {0: [3]}), [TEXT])[0].weights[0, 3].any()
    with pytest.raises(ValueError, match="must not be pruned: head 2 of layer 0 was. Choose another"):
        inspect.ablate_heads(pruned, {0: [2]})


def test_attributions_by_piece_and_word(bert):
    [why] = inspect.attributions(bert, [TEXT])
    assert why.target == ["bad", "good"][int(why.logits.argmax())] and why.score == pytest.approx(why.logits.max())
    assert why.gap < 0.01 and why.steps == 32 and why.places is None
    assert why.values[[0, -1]].tolist() == [0, 0] and why.word_values[1] == pytest.approx(why.values[2:4].sum())
    assert why.word_values.sum() == pytest.approx(why.score - why.baseline_score, rel=0.01)
    one, other = inspect.attributions(bert, [TEXT, TEXT], ["bad", 1], steps=8, baseline="mask")
    assert (one.target, other.target, one.steps) == ("bad", "good", 8) and one.baseline_score != why.baseline_score


def test_attributions_of_a_tag(bert):
    head = ClassificationHead(2, 0.0)
    head.build((None, 32))
    tagger = dataclasses.replace(bert, head=head, labels=["B-X", "O"])
    tagger.config.extra["architectures"] = ["BertForTokenClassification"]
    try:
        [why] = inspect.attributions(tagger, [TEXT], (1, "B-X"), 8)
        assert (why.target, why.places) == ("B-X", (2, 2)) and why.score == pytest.approx(why.logits[0], abs=1e-5)
        [said] = inspect.attributions(tagger, [TEXT], None, 8)
        assert said.target == tagger.labels[int(said.logits.argmax())]
        with pytest.raises(ValueError, match="index of a word, from 0 to 4"):
            inspect.attributions(tagger, [TEXT], 5, 8)
    finally:
        del tagger.config.extra["architectures"]


def test_attributions_of_an_answer(bert):
    reader = dataclasses.replace(bert, head=None, labels=None, others=_others(QuestionAnsweringHead(), bert.config))
    [why] = inspect.attributions(reader, [("is it good", TEXT)], (4, 9), 8)
    assert (why.target, why.places) == ("films", (6, 7))
    assert why.score == pytest.approx(why.logits[6, 0] + why.logits[7, 1], abs=1e-4)
    [said] = inspect.attributions(reader, [("is it good", TEXT)], steps=8)
    assert said.target in TEXT and said.score >= why.score - 1e-5


@pytest.mark.parametrize("is_decoder", [False, True])
def test_masked_words(is_decoder):
    pretrained = with_words(is_decoder=is_decoder)
    pretrained = dataclasses.replace(
        pretrained, others=_others(MaskedLMHead(len(tiny.VOCAB), width=None), pretrained.config)
    )
    [said] = inspect.logit_lens(pretrained, ["a [MASK] film"], top_k=3)
    assert said.top_tokens.shape == said.probabilities.shape == (2, 5, 3) and said.own_probabilities.shape == (2, 5)
    outputs = pretrained.encoder(said.features)
    table = pretrained.encoder.embeddings.word_embeddings
    logits = masked_lm_head(pretrained)(outputs["sequence_output"], table, np.arange(5)[np.newaxis]).numpy()[0]
    ids = np.argsort(-logits, -1)[:, :3]
    if is_decoder:  # what is said at a place is about the next
        assert said.top_ids[-1, 0].tolist() == [-1] * 3 and set(said.top_tokens[:, 0].flat) == {""}
        assert np.array_equal(said.top_ids[-1, 1:], ids[:-1])
    else:
        assert np.array_equal(said.top_ids[-1], ids)
        assert said.top_tokens[-1, 2, 0] == tiny.VOCAB[ids[2, 0]]
        shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(said.own_probabilities[-1], shares[np.arange(5), said.ids], rtol=1e-4)


def test_a_left_to_right_model_does_not_look_ahead():
    [row] = inspect.attention(with_words(is_decoder=True), [TEXT])
    assert not np.triu(row.weights, 1).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: inspect.attention(b, ["film " * 31]), "at most 32 tokens, .* Text 1 of 1 has 33"),
        (lambda b: inspect.attention(b, [3]), "all strings, or all pairs of strings; got int"),
        (lambda b: inspect.attention(b, ["a"], ["a", "b"]),
         "`pairs` must have a second text for each of `texts`; got 2 for 1"),
        (lambda b: inspect.attention(b, [("a", "b"), ("c",)]), "got tuple at position 1"),
        (lambda b: inspect.attention(b.encoder, {"input_ids": [[2, 3]], "attention_mask": [[1, 0]]}),
         "`attention_mask`, which is called `input_mask` in bert_tf"),
        (lambda b: inspect.attention(b.encoder, {"input_ids": [[2, 3]], "sentence_ids": [[1, 1]]}),
         "`sentence_ids`, which this model does not use"),
        (lambda b: inspect.attention(b.encoder, ["a"]), "`texts` must be a dict with `input_ids`"),
        (lambda b: inspect.attention("model", ["a"]), "Checkpoint not found: model"),
        (lambda b: inspect.attention(3, ["a"]), "`model` must be a model from `bert_tf.load`"),
        (lambda b: inspect.ablate_heads(b, {2: [0]}), "`layer` must be from 0 to 0, and `head` from 0 to 1; got 2"),
        (lambda b: inspect.ablate_heads(b, {0: [2]}), "got 0 and 2"),
        (lambda b: inspect.neurons(b, ["a"])[0].products(0, 0, 3), "must be the position of a token, from 0 to 2"),
        (lambda b: inspect.logit_lens(b, ["a"]), "must have a masked-LM head; .* does not have one"),
        (lambda b: inspect.attributions(dataclasses.replace(b, head=None), ["a"]), "require a head for labels"),
        (lambda b: inspect.attributions(b.encoder, ["a"]), "answers; an encoder alone has no such head"),
        (lambda b: inspect.attributions(b, ["a"], "ugly"), "one of the model's labels, bad, good; got 'ugly'"),
        (lambda b: inspect.attributions(b, ["a"], baseline="zero"), "`baseline` must be one of pad, mask"),
        (lambda b: inspect.attributions(b, ["a"], steps=0), "`steps` must be at least 1"),
        (lambda b: inspect.attributions(b, ["a"], [1, 1]), "one for each of 1; got a list of 2"),
        (
            lambda b: inspect.attributions(dataclasses.replace(b, others={"recurrent/bias": 0}), ["a"]),
            "a BiLSTM between them",
        ),
    ],
)
def test_wrong_arguments_are_refused(bert, call, message):
    with pytest.raises(ValueError, match=message):
        call(bert)


def test_inspect_is_public():
    assert bert_tf.inspect is inspect
