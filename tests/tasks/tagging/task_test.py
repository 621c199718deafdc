"""Tagging: rows and their tags, the loss by hand, conlleval's scores through windows, and entities in texts."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.evaluation import entities
from bert_tf.tasks.base import SplitPredictions, TrainedTask
from bert_tf.tasks.tagging.columns import TaggedExamples, read_columns, text_of
from bert_tf.tasks.tagging.encoding import encode_sentences
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.tasks.tagging.task import TaggingTask, check_frozen, list_tags
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.batching import BatchSettings
from bert_tf.training.run_config import RunConfig
from bert_tf.training.trainer import Trainer
from tests import tiny
from tests.tasks.support import options
from tests.tasks.tagging import support

LABELS = ["B-FLAW", "B-QUAL", "I-FLAW", "I-QUAL", "O"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(list(tiny.VOCAB))


def examples(sentences) -> TaggedExamples:
    words, tags = ([[pair[side] for pair in sentence] for sentence in sentences] for side in (0, 1))
    return TaggedExamples([str(i) for i in range(len(words))], words, tags, "iob2", "tags.txt", list(range(len(words))))


def _task(**options):
    return TaggingTask(tiny.config(), LABELS, **options)


def test_a_frozen_encoder_is_not_random():
    check_frozen(options(TaggingOptions, feature_layers="last", init_checkpoint="some"))
    check_frozen(options(TaggingOptions))
    message = "`feature_layers` requires `init_checkpoint`.* got `feature_layers=last` alone"
    with pytest.raises(ValueError, match=message):
        check_frozen(options(TaggingOptions, feature_layers="last"))


def test_each_type_has_both_of_its_tags():
    assert list_tags([["O", "B-b"], ["B-a", "I-a"]]) == ["B-a", "B-b", "I-a", "I-b", "O"]
    assert list_tags([["O"]]) == ["O"] and list_tags([["B", "I"]]) == ["B", "I", "O"]


def test_the_tag_stands_on_a_words_first_piece(tokenizer):
    sentence = [("goods", "B-QUAL"), ("film", "O"), ("\u200b", "B-FLAW"), ("bad", "B-FLAW"), ("bad,bad", "I-FLAW")]
    rows = encode_sentences(tokenizer, examples([sentence]), LABELS, 16, 4, True)
    pieces = [tiny.VOCAB[i] for i in rows.features["input_ids"]]
    assert pieces == ["[CLS]", "good", "##s", "film", "bad", "bad", ",", "bad", "[SEP]"]
    assert rows.features["tag_ids"].tolist() == [-1, 1, -1, 4, 0, 2, -1, -1, -1]
    assert rows.origin.take(rows.features["input_ids"][np.newaxis], "none") == [
        [tiny.VOCAB.index("good"), tiny.VOCAB.index("film"), "none", tiny.VOCAB.index("bad"), tiny.VOCAB.index("bad")]
    ]


def test_each_word_has_its_tag_once_however_many_windows_there_are(tokenizer):
    given = examples(support.sentences(40, seed=5))
    for length in (5, 8, 16, 32):
        rows = encode_sentences(tokenizer, given, LABELS, length, max(1, length // 2 - 2), True)
        tags = rows.features["tag_ids"]
        assert (tags >= 0).sum() == sum(map(len, given.words)) and rows.lengths.max() <= length
        flat = np.full((len(rows), length), -1)
        for i, (first, end) in enumerate(zip(rows.splits[:-1], rows.splits[1:], strict=True)):
            flat[i, : end - first] = tags[first:end]
        assert [[LABELS[i] for i in each] for each in rows.origin.take(flat, -1)] == given.tags


def test_a_word_with_white_space_inside_is_tagged_by_its_first_part(tokenizer):
    rows = encode_sentences(
        tokenizer, examples([[("good film", "B-QUAL"), ("a\u00a0story", "O")]]), LABELS, 16, 4, True
    )
    assert rows.features["tag_ids"].tolist() == [-1, 1, -1, 4, -1, -1]


def _decoded(tokenizer, words, given):
    """Returns the tags that predictions.txt has of one sentence, and predictions.jsonl's entities.

    `given` are the tags that the model gives to the words, and to the parts of words, of which pieces are left.
    """
    task, sentence = _task(), examples([[(word, "O") for word in words]])
    rows = encode_sentences(tokenizer, sentence, LABELS, 16, 4, False)
    outputs = {"tag": np.full((len(rows), 16), LABELS.index("O")), "probability": np.full((len(rows), 16), 0.75, "f4")}
    first = rows.origin.words
    assert len(first.sequences) == len(given)
    outputs["tag"][first.sequences, first.positions] = [LABELS.index(tag) for tag in given]
    (tags,), (found,) = task.decode(SplitPredictions("test", sentence, rows, outputs, None))
    return tags, [(each["text"], each["type"], each["start"]) for each in found]


def test_a_word_without_pieces_goes_on_with_the_entity_around_it(tokenizer):
    begin, inner, out, none = "B-QUAL", "I-QUAL", "O", "\u200b"
    assert _decoded(tokenizer, ["good", none, "film", "is"], [begin, inner, out]) == (
        [begin, inner, inner, out], [(f"good {none} film", "QUAL", 0)],
    )  # fmt: skip
    assert _decoded(tokenizer, [none, "good", none, none, "film"], [inner, inner]) == (
        [out, begin, inner, inner, inner], [(f"good {none} {none} film", "QUAL", 2)],
    )  # fmt: skip
    # At an edge of an entity it is outside, and between two it is of neither.
    assert _decoded(tokenizer, ["good", none, "film", none], [begin, begin]) == (
        [begin, out, begin, out], [("good", "QUAL", 0), ("film", "QUAL", 7)],
    )  # fmt: skip
    assert _decoded(tokenizer, ["is", none, "film"], [out, inner]) == ([out, out, begin], [("film", "QUAL", 5)])


def test_of_a_word_with_white_space_inside_both_files_tell_the_whole(tokenizer):
    words = ["a", "good\u00a0film story", "is"]
    assert _decoded(tokenizer, words, ["O", "B-QUAL", "O", "B-FLAW", "O"]) == (
        ["O", "B-QUAL", "O"], [("good\u00a0film story", "QUAL", 2)],
    )  # fmt: skip


def test_a_tag_that_training_never_saw_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"^tags\.txt:.*one of those in the training data: B-FLAW, .* 'B-NEW'"):
        encode_sentences(tokenizer, examples([[("film", "B-NEW")]]), LABELS, 16, 4, True)


def test_the_loss_is_the_mean_over_the_words_that_speak():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 4, 5)).astype(np.float32)
    tags = np.array([[-1, 0, 4, -1], [-1, 2, -1, -1], [-1, 3, 1, 1]], np.int32)
    batch = {"tag_ids": tf.constant(tags), "is_real_example": tf.constant([1.0, 1.0, 0.0])}
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    each = [-np.log(chances[r, c, t]) for r, c, t in ((0, 1, 0), (0, 2, 4), (1, 1, 2))]
    task = _task()
    assert float(task.loss(logits, batch, task.loss_normalizers(batch))) == pytest.approx(np.mean(each), rel=1e-5)
    losses, words = task.example_losses(logits, batch)
    assert words.numpy().tolist() == [2, 1, 3]
    np.testing.assert_allclose(losses[:2], [sum(each[:2]), each[2]], rtol=1e-5)
    weights = (2.0, 1.0, 3.0, 1.0, 0.5)
    weighed = _task(class_weights=weights)
    expected = (2.0 * each[0] + 0.5 * each[1] + 3.0 * each[2]) / 5.5
    assert float(weighed.loss(logits, batch, weighed.loss_normalizers(batch))) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(weighed.example_losses(logits, batch)[0], losses)  # runs may be compared


@pytest.mark.slow  # run_tagger_test trains one too, and holds its scores against the columns that it writes
def test_a_tiny_model_learns_and_its_scores_are_conllevals(tokenizer, tmp_path):
    keras.utils.set_random_seed(0)
    given, task, batching = examples(support.sentences(64)), _task(doc_stride=6), BatchSettings(16)
    rows = task.encode_examples(tokenizer, given, 16, True)
    job = Trainer(task, RunConfig(str(tmp_path), 16, 120, 10, 4e-3))
    job.fit(batching.training(rows, job.run))
    scores, outputs = job.scores(batching.scoring(rows, 16)), job.outputs(batching.scoring(rows, 16))
    assert scores["f1"] > 0.9 and 0 < scores["loss"] < 0.3
    predictions = rows.origin.take(np.array(LABELS, object)[outputs["tag"]], "O")
    predictions = [entities.tags_of(entities.parse_entities(tags), len(tags), "iob2") for tags in predictions]
    assert {k: v for k, v in scores.items() if k != "loss"} == entities.score_entities(given.tags, predictions)
    assert set(task.metric_names) | {"loss"} == scores.keys()


def test_entities_are_those_of_conlleval_whatever_the_tags(tokenizer):
    rng, task = np.random.default_rng(1), _task(doc_stride=8)
    sentences = [[(word, "O") for word in rng.choice(tiny.FILL, rng.integers(1, 9))] for _ in range(60)]
    given = examples(sentences)
    texts = [text_of(words)[0] for words in given.words]
    features, words = task.preprocess(tokenizer, [tf.constant(texts)], 32)
    logits = tf.constant(rng.normal(size=(*features["input_ids"].shape, len(LABELS))), tf.float32)
    served = {name: values.numpy() for name, values in task.postprocess(logits, words).items()}
    best = {name: values.numpy() for name, values in task.reduce_outputs(logits, None).items()}
    rows = dataclasses.replace(task.encode_examples(tokenizer, given, 32, False))
    for i, tags in enumerate(rows.origin.take(np.array(LABELS, object)[best["tag"]], "O")):
        spans, expected = text_of(given.words[i])[1], entities.parse_entities(tags)
        assert served["entity_count"][i] == len(expected)
        for k, entity in enumerate(expected):
            start, end = int(served["start"][i, k]), int(served["end"][i, k])
            assert (start, end) == (spans[entity.first][0], spans[entity.last][1])
            assert served["entity"][i, k].decode() == texts[i][start:end]
            assert served["type"][i, k].decode() == entity.type
            assert 0.2 < served["score"][i, k] <= 1
        assert not served["entity"][i, len(expected) :].astype(bool).any()


def test_texts_with_spans_are_scored_by_their_own_offsets_as_they_are_served(tokenizer, tmp_path, caplog):
    lines = [
        {"text": "the good-film (bad)", "entities": [[4, 8, "QUAL"], [15, 18, "FLAW"]]},
        {"text": "film 서울에서 good", "entities": [[5, 7, "QUAL"], [10, 14, "QUAL"]]},  # half of [UNK]
        {"text": "badly", "entities": [[0, 3, "FLAW"]]},  # half a word
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given, task = read_columns(path), _task(doc_stride=8, word_boundaries="punctuation")
    with caplog.at_level("WARNING"):
        rows = task.encode_examples(tokenizer, given, 32, True)
    assert "a.jsonl: 1 of 5 entities begin or end inside a token of the vocabulary" in caplog.text
    tags = rows.features["tag_ids"]
    expected = ["O", "B-QUAL", "O", "O", "O", "B-FLAW", "O", "O", "B-QUAL", "B-QUAL", "B-FLAW"]
    assert [LABELS[i] for i in tags[tags >= 0]] == expected
    # What a model answers that has learned all of this
    features, words = task.preprocess(tokenizer, [tf.constant(given.texts)], 32)
    logits = np.zeros((*features["input_ids"].shape, len(LABELS)), np.float32)
    for row in range(len(rows)):
        own = slice(rows.splits[row], rows.splits[row + 1])
        logits[row, np.arange(len(tags[own])), np.maximum(tags[own], 0)] = 9
    best = {name: values.numpy() for name, values in task.reduce_outputs(tf.constant(logits), None).items()}
    scores = task.metrics(best, rows)
    assert (scores["precision"], scores["recall"], scores["precision_FLAW"]) == (3 / 5, 3 / 5, 1 / 2)
    served = {name: values.numpy() for name, values in task.postprocess(tf.constant(logits), words).items()}
    pairs = zip(served["entity"], served["entity_count"], strict=True)
    answers = [[text.decode() for text in row[:n]] for row, n in pairs]
    assert answers == [["good", "bad"], ["서울에서", "good"], ["badly"]]
    _, mentions = task.decode(SplitPredictions("dev", given, rows, best, None))
    assert [[entity["text"] for entity in each] for each in mentions] == answers
    report = task.error_report(SplitPredictions("dev", given, rows, best, None))
    assert report.interval("f1")[0] < 0.6 < report.interval("f1")[1]


def test_where_words_end_is_decided_by_the_training_file(tmp_path):
    spans, columns = tmp_path / "a.jsonl", tmp_path / "a.txt"
    spans.write_text('{"text": "the good-film", "entities": [[4, 8, "QUAL"]]}\n')
    columns.write_text("the O\ngood B-QUAL\n")
    read = {}
    for train, dev in ((spans, columns), (columns, spans)):
        try:
            data = TaggingTask.read_data(options(TaggingOptions, train_file=str(train), eval_file=str(dev)),
                                         ["train", "dev"], None)  # fmt: skip
            read[train.name] = data.examples["train"].boundaries, data.examples["dev"].words
        except ValueError as error:
            read[train.name] = str(error)
    assert read["a.jsonl"] == ("punctuation", [["the", "good"]])
    assert "a.jsonl:1: entities must begin and end where words do; got QUAL 'good' in 'good-film'" in read["a.txt"]
    trained = TrainedTask(_task(), ("text",), 32)  # of columns: it is scored on the file's own entities all the same
    (dev,) = TaggingTask.read_data(options(TaggingOptions, eval_file=str(spans)), ["dev"], trained).examples.values()
    assert dev.words == [["the", "good-film"]]
    with pytest.raises(ValueError, match="`word_boundaries` must match the trained model's, whitespace; got"):
        TaggingTask.read_data(options(TaggingOptions, word_boundaries="characters"), [], trained)


def test_adjacent_single_word_entities_of_other_schemes_are_served_apart(tokenizer):
    task = TaggingTask(tiny.config(), ["B-X", "E-X", "I-X", "O", "S-X"], doc_stride=8)
    features, words = task.preprocess(tokenizer, [tf.constant(["the good bad film"])], 32)
    logits = np.full((1, 6, 5), -9, np.float32)
    logits[0, range(6), [3, 4, 4, 0, 1, 3]] = 9
    served = task.postprocess(tf.constant(logits), words)
    assert served["entity"].numpy().tolist() == [[b"the", b"good", b"bad film"]]


def test_ids_alone_are_answered_piece_by_piece():
    logits = tf.constant(np.eye(5, dtype=np.float32)[np.newaxis] * 9)
    answer = _task().postprocess(logits)
    assert [tag.decode() for tag in answer["tag"].numpy()[0]] == LABELS
    assert (answer["probability"].numpy() > 0.99).all()


def test_what_decides_a_training():
    assert _task(layers="last", lstm_units=8).identity() == {"feature_layers": "last", "lstm_units": 8}
    assert _task().to_dict() == {"labels": LABELS, "scheme": "iob2", "doc_stride": 64} and not _task().identity()
