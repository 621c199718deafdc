"""`BertTagger` is `train tagger` on sentences in memory: words or texts in, a tag per word out."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.tf1 import Tf1File
from bert_tf.sklearn import BertTagger
from tests import scripts, tiny
from tests.fake_pandas import DataFrame, Series

TEXTS = [text for text, _ in tiny.texts(48)]
WORDS = [text.split() for text in TEXTS]
TAGS = [["B-GOOD" if word in tiny.GOOD else "B-BAD" if word in tiny.BAD else "O" for word in words] for words in WORDS]
OPTIONS = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 3e-3, "num_train_epochs": 6.0, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def fitted(folder):
    return BertTagger(folder, label_smoothing=0.1, **OPTIONS).fit(WORDS, TAGS)


@pytest.mark.slow
def test_it_learns(fitted):
    assert fitted.predict(WORDS) == TAGS and fitted.score(TEXTS, TAGS) == 1
    assert fitted.predict(Series(TEXTS[:2], [5, 3])) == fitted.predict(np.array(TEXTS[:2])) == TAGS[:2]
    assert fitted.classes_.tolist() == ["B-BAD", "B-GOOD", "I-BAD", "I-GOOD", "O"] and fitted.tag_scheme_ == "iob2"
    assert pickle.loads(pickle.dumps(fitted)).predict(WORDS) == TAGS
    assert "Named entity recognition" in fitted.report(TEXTS, TAGS)


@pytest.mark.slow
def test_the_score_is_the_f1_of_entities(fitted):
    wrong = [["O"] * len(tags) if n < 24 else tags for n, tags in enumerate(TAGS)]
    assert fitted.score(TEXTS, wrong) == pytest.approx(2 * 24 / (48 + 24))


@pytest.mark.slow
def test_the_same_settings_give_the_same_model(folder, fitted, tmp_path):
    sentences = zip(WORDS, TAGS, strict=True)
    train = tiny.write_jsonl(tmp_path / "train.jsonl", list(sentences), ("tokens", "tags"))
    flags = {"train_file": train, "predict_file": train, "init_checkpoint": folder, "output_dir": tmp_path / "out",
             "do_train": True, "do_predict": True, "label_smoothing": 0.1, **OPTIONS}  # fmt: skip
    with scripts.Cases("run_tagger") as program:
        ended = program.run([f"--{name}={value}" for name, value in flags.items()])
    assert ended["status"] == 0, ended["log"]
    fitted.save(tmp_path / "saved")
    ours, theirs = (Tf1File(CheckpointManager(tmp_path / name).latest()[1]) for name in ("saved", "out"))
    for name in ours.shapes:
        np.testing.assert_array_equal(ours.read(name), theirs.read(name), name)


@pytest.mark.slow
def test_predictions_are_in_the_scheme_of_the_tags(folder):
    tags = [[tag.replace("B-", "S-") for tag in each] for each in TAGS]
    fitted = BertTagger(folder, **{**OPTIONS, "num_train_epochs": 4.0}).fit(WORDS, tags, sample_weight=[1] * 47 + [2])
    assert fitted.tag_scheme_ == "bioes" and fitted.score(WORDS, TAGS) > 0.5
    assert {tag for each in fitted.predict(WORDS) for tag in each} <= {"S-GOOD", "S-BAD", "O"}


@pytest.mark.slow
def test_a_search_over_settings(folder):
    tagger = BertTagger(folder, early_stopping=1, validation_fraction=0.2, **{**OPTIONS, "num_train_epochs": 2})
    search = GridSearchCV(tagger, {"class_weights": [None, "balanced"]}, cv=KFold(2), error_score="raise", refit=False)
    assert 0 <= search.fit(WORDS, TAGS).best_score_ <= 1


@pytest.mark.parametrize(
    ("options", "sentences", "tags", "message"),
    [
        ({}, [["a", "b"]], [["O"]], "`y` must have one tag per word; got 1 tags for the 2 words of sentence 0"),
        ({}, ["a b", "c"], [["O", "O"]], "inconsistent numbers of samples"),
        ({}, ["a b"], ["O O"], "`y` must be a list of tags per sentence; got 'O O' for sentence 0"),
        ({}, ["a", "b c"], [["O"], ["O", "PER"]], "`y`, sentence 1: A tag must be O, or .* unknown tag 'PER'"),
        ({"tag_scheme": "iob2"}, ["a b"], [["O", "I-X"]], "`y`, sentence 0, word 1: the tags must follow iob2"),
        ({"tag_scheme": "bio"}, ["a"], [["O"]], "`tag_scheme` must be one of auto, iob1, iob2, bioes; got 'bio'"),
        ({}, [["a", " "]], [["O", "O"]], "`X` must be lists of words, or texts, .* without blank words"),
        ({}, ["a", ""], [["O"], []], "`X` must be lists of words, .* got '' at position 1"),
        ({}, [], [], "`X` is empty"),
        ({}, DataFrame({"a": ["b"]}), [["O"]], "`X` must be several texts, .* a DataFrame of a"),
        ({}, ["a"], None, "requires y to be passed"),
    ],
)
def test_bad_sentences_and_tags_are_refused(folder, options, sentences, tags, message):
    with pytest.raises(ValueError, match=message):
        BertTagger(folder, max_seq_length=16, **options).fit(sentences, tags)


def test_it_must_be_fitted(folder):
    for ask in (BertTagger(folder).predict, lambda X: BertTagger(folder).score(X, TAGS)):
        with pytest.raises(NotFittedError):
            ask(WORDS)
