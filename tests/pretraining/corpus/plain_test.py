"""The plain-Python peer of benchmarks/pretraining_data.py does what google-research/bert describes."""

import random
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import ROOT
from tests.tokenization.reference import Reference

sys.path.insert(0, str(ROOT / "benchmarks"))
import plain_pretraining_data as plain
from plain_tokenization import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefgh"  # one for each document; its words are the letter and a digit: a7 -> a ##7
VOCAB = [*SPECIAL, *LETTERS, *(f"##{digit}" for digit in range(10)), ",", "北", "##b", "naive"]
TEXTS = [
    "a1 b2,c3",
    "Na\u00efve a\u0301b \u5317a9",
    "a\u200b7\x00b\t\ufffdc\u00a0d",
    "zz a",
    "",
    "a" * 201,
    "a1" + "0" * 198,
]
LENGTH, PREDICTIONS = 32, 4
LENGTHS = {
    "input_ids": LENGTH, "input_mask": LENGTH, "segment_ids": LENGTH, "next_sentence_labels": 1,
    "masked_lm_positions": PREDICTIONS, "masked_lm_ids": PREDICTIONS, "masked_lm_weights": PREDICTIONS,
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a vocabulary, and a corpus of eight documents of 1 to 40 sentences."""
    folder, rng = tmp_path_factory.mktemp("plain"), random.Random(0)
    (folder / "vocab.txt").write_text("\n".join(VOCAB), encoding="utf-8")
    documents = [
        [" ".join(f"{letter}{rng.randrange(10)}" for _ in range(rng.randint(1, 6))) for _ in range(sentences)]
        for letter, sentences in zip(LETTERS, (1, 2, 40, 12, 25, 33, 7, 18), strict=True)
    ]
    (folder / "corpus.txt").write_text("\n\n".join("\n".join(document) for document in documents))
    return folder


def _make(files, seed=0, **options):
    """Returns {name: [n, k]} of the records, and the number that was reported."""
    output = str(files / "out.tfrecord")
    options = plain.Options(LENGTH, PREDICTIONS, **options)
    tokenizer = Tokenizer(files / "vocab.txt")
    made = plain.create(str(files / "corpus.txt"), output, tokenizer, options, 20, seed)
    assert all(seconds >= 0 for seconds in made["seconds"].values())
    rows = {name: [] for name in LENGTHS}
    for record in tf.data.TFRecordDataset(output).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        assert features.keys() == LENGTHS.keys()
        for name, feature in features.items():
            rows[name].append((feature.int64_list if feature.HasField("int64_list") else feature.float_list).value)
    return {name: np.array(values) for name, values in rows.items()}, made["records"]


@pytest.mark.parametrize("lower", [True, False])
def test_tokens_are_those_of_the_reference(files, lower):
    tokenizer, reference = Tokenizer(files / "vocab.txt", lower), Reference(VOCAB, lower)
    for text in TEXTS:
        assert tokenizer.ids(tokenizer.tokenize(text)) == reference.ids(text)


def test_features_have_google_s_names_and_lengths(files):
    rows, number = _make(files)
    assert {name: values.shape for name, values in rows.items()} == {n: (number, k) for n, k in LENGTHS.items()}
    assert set(rows["next_sentence_labels"].flat) == {0, 1}
    assert set(rows["masked_lm_weights"].flat) == {0.0, 1.0}


def test_a_random_second_text_comes_from_another_document(files):
    rows, number = _make(files)
    for row in range(number):
        ids, length = _unmasked(rows, row), rows["input_mask"][row].sum()
        first = ids[: length - rows["segment_ids"][row].sum()]
        second = ids[len(first) : length]
        assert VOCAB[first[0]] == "[CLS]" and VOCAB[first[-1]] == VOCAB[second[-1]] == "[SEP]"
        assert rows["segment_ids"][row].tolist() == [0] * len(first) + [1] * len(second) + [0] * (LENGTH - length)
        assert not ids[length:].any()
        a, b = ({VOCAB[piece] for piece in text} & set(LETTERS) for text in (first, second))
        if a and b:  # a text cut to one piece may have no letter
            assert len(a) == len(b) == 1 and (a != b) == rows["next_sentence_labels"][row, 0]


def test_so_many_pieces_are_masked_and_four_in_five_by_mask(files):
    rows, _ = _make(files)
    chosen = rows["masked_lm_weights"] == 1
    tokens = rows["input_mask"].sum(1)
    assert (chosen.sum(1) == np.clip(np.round(0.15 * tokens), 1, PREDICTIONS)).all()
    assert all((np.diff(at[take]) > 0).all() for at, take in zip(rows["masked_lm_positions"], chosen, strict=True))
    assert rows["masked_lm_ids"][chosen].min() >= len(SPECIAL)
    found = np.take_along_axis(rows["input_ids"], rows["masked_lm_positions"], 1)[chosen]
    labels = rows["masked_lm_ids"][chosen]
    mask = SPECIAL.index("[MASK]")
    expected = np.array([0.8 + 0.1 / len(VOCAB), 0.1 + 0.1 / len(VOCAB)])
    np.testing.assert_allclose([(found == mask).mean(), (found == labels).mean()], expected, atol=0.03)


def test_whole_words_are_masked_whole(files):
    rows, number = _make(files, do_whole_word_mask=True)
    for row in range(number):
        chosen = set(rows["masked_lm_positions"][row][rows["masked_lm_weights"][row] == 1])
        names = [VOCAB[piece] for piece in _unmasked(rows, row)[: rows["input_mask"][row].sum()]]
        assert chosen or len(names) * 0.15 < 1.5  # where two pieces may be chosen there is room for a word
        for i, name in enumerate(names):
            if name.startswith("##") and names[i - 1] in LETTERS:
                assert (i in chosen) == (i - 1 in chosen)


def test_the_seed_decides(files):
    one, two, other = (_make(files, seed)[0] for seed in (1, 1, 2))
    assert all((one[name] == two[name]).all() for name in LENGTHS)
    assert one["input_ids"].shape != other["input_ids"].shape or (one["input_ids"] != other["input_ids"]).any()


def _unmasked(rows, row):
    """The ids of a row before masking."""
    ids, chosen = rows["input_ids"][row].copy(), rows["masked_lm_weights"][row] == 1
    ids[rows["masked_lm_positions"][row][chosen]] = rows["masked_lm_ids"][row][chosen]
    return ids
