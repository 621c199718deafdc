"""Long texts as examples of several rows: which tokens each row has, and the batches that they make."""

import logging

import numpy as np
import pytest

from bert_tf.data import batch_order, dataset, windowed
from bert_tf.data.windowed import Windowing
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny

CLS, SEP = 2, 3
WORDS = tiny.FILL  # each is one token
FIRST = tiny.VOCAB.index(WORDS[0])


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(tiny.VOCAB)


def _text(*numbers):
    return " ".join(WORDS[i] for i in numbers)


def _rows(tokenizer, texts, length, windows):
    """Returns the rows as lists of the words' numbers, "[" and "|" for [CLS] and [SEP], and the text of each."""
    ids = [tokenizer.tokenize(column) for column in texts]
    packed, rows, cut = windowed.window_rows(tokenizer, ids, length, windows)
    shown = [[{CLS: "[", SEP: "|"}.get(i, i - FIRST) for i in row] for row in packed["input_ids"].to_list()]
    return shown, rows.numpy().tolist(), cut.numpy().tolist()


def test_a_text_in_windows(tokenizer):
    texts = [[_text(*range(7)), _text(8), "", _text(*range(4))]]
    assert _rows(tokenizer, texts, 6, Windowing(2)) == (
        [["[", 0, 1, 2, 3, "|"], ["[", 2, 3, 4, 5, "|"], ["[", 4, 5, 6, "|"]]
        + [["[", 8, "|"], ["[", "|"], ["[", 0, 1, 2, 3, "|"]],
        [0, 0, 0, 1, 2, 3],
        [0, 0, 0, 0],
    )


def test_a_pair_has_its_first_text_in_every_window(tokenizer):
    texts = [[_text(9), _text(*range(6)), _text(*range(5))], [_text(*range(6)), _text(*range(5)), _text(7)]]
    shown, rows, cut = _rows(tokenizer, texts, 8, Windowing(2))
    assert shown == [
        ["[", 9, "|", 0, 1, 2, 3, "|"],
        ["[", 9, "|", 2, 3, 4, 5, "|"],
        ["[", 0, 1, 2, "|", 0, 1, "|"],  # both are too long: the first has half of the room, the odd token with it
        ["[", 0, 1, 2, "|", 2, 3, "|"],
        ["[", 0, 1, 2, "|", 4, "|"],
        ["[", 0, 1, 2, 3, "|", 7, "|"],  # the first alone is too long: it is cut, as without windows
    ]
    assert rows == [0, 0, 1, 1, 1, 2] and cut == [0, 0, 0]


@pytest.mark.parametrize("pairs", [False, True])
def test_the_first_window_is_the_truncated_text(tokenizer, pairs):
    rng = np.random.default_rng(0)
    texts = [[_text(*rng.integers(0, 12, rng.integers(0, 30))) for _ in range(60)] for _ in range(1 + pairs)]
    ids = [tokenizer.tokenize(column) for column in texts]
    packed, rows, _ = windowed.window_rows(tokenizer, ids, 16, Windowing(5))
    truncated, first = tokenizer.pack(*ids, max_seq_length=16), np.unique(rows, return_index=True)[1]
    assert len(first) == 60 < len(rows)
    for name, expected in truncated.items():
        got = packed[name].to_list()
        assert [got[i] for i in first] == expected.to_list()


def test_text_behind_the_last_window_is_cut(tokenizer):
    shown, rows, cut = _rows(tokenizer, [[_text(*range(9)), _text(*range(6))]], 6, Windowing(2, 2))
    assert shown[1] == ["[", 2, 3, 4, 5, "|"] and rows == [0, 0, 1, 1] and cut == [3, 0]
    one = _rows(tokenizer, [[_text(*range(9))]], 6, Windowing(2, 1))
    assert one == ([["[", 0, 1, 2, 3, "|"]], [0], [5])


def test_windows_with_gaps_are_refused(tokenizer):
    ids = tokenizer.tokenize(["good"])
    windowed.window_rows(tokenizer, [ids], 8, Windowing(6))
    for texts, length, stride, room in (([ids], 8, 7, 6), ([ids, ids], 8, 6, 5)):
        with pytest.raises(ValueError, match=rf"`doc_stride` must be at most {room}, .* got {stride}; lower"):
            windowed.window_rows(tokenizer, texts, length, Windowing(stride))


@pytest.fixture(scope="module")
def examples(tokenizer):
    """Three examples of 3, 1 and 2 windows."""
    texts = [_text(*range(7)), _text(8), _text(*range(6))]
    return windowed.tokenize_windows(tokenizer, [texts], 6, Windowing(2), {"label_ids": np.array([1, 0, 1], np.int32)})


def test_windowed_has_the_interface_of_tokenized(examples):
    assert len(examples) == 3
    assert examples.lengths.tolist() == [6 + 6 + 5, 3, 6 + 6]
    assert examples.splits.tolist() == [0, 3, 4, 6]


def test_a_batch_has_all_windows_of_its_examples(examples):
    (batch,) = dataset.build_batches(examples, np.array([[2, 1]]), max_seq_length=6, width_step=2)
    drawn = {name: values.numpy().tolist() for name, values in batch.items()}
    w = [FIRST + i for i in range(9)]
    assert drawn == {
        "input_ids": [[[2, *w[:4], 3], [2, *w[2:6], 3]], [[2, w[8], 3, 0, 0, 0], [0] * 6]],
        "input_mask": [[[1] * 6, [1] * 6], [[1, 1, 1, 0, 0, 0], [0] * 6]],
        "segment_ids": [[[0] * 6] * 2] * 2,
        "label_ids": [1, 0],
        "is_real_example": [1, 1],
    }


def test_padding_of_a_batch_keeps_one_token_of_one_window(examples):
    (batch,) = dataset.build_batches(examples, np.array([[2, -1]]), max_seq_length=6, by_length=False)
    assert batch["input_mask"][1].numpy().tolist() == [[1, 0, 0, 0, 0, 0], [0] * 6]
    assert not batch["input_ids"][1].numpy().any() and batch["is_real_example"].numpy().tolist() == [1, 0]


def test_batches_have_few_shapes_and_the_specs_hold(examples):
    order = np.array([[0], [1], [2]])
    made = dataset.build_batches(examples, order, 6)
    assert [batch["input_ids"].shape for batch in made] == [(1, 3, 6), (1, 1, 6), (1, 2, 6)]
    assert {name: spec.shape.rank for name, spec in made.element_spec.items()} == {
        **dict.fromkeys(("input_ids", "segment_ids", "input_mask"), 3), "label_ids": 1, "is_real_example": 1,
    }  # fmt: skip
    assert batch_order.scoring_order(examples.lengths, 1).ravel().tolist() == [0, 2, 1]  # the most windows first


def test_numbers_of_windows_are_rounded_up_to_few(tokenizer):
    examples = windowed.tokenize_windows(tokenizer, [[_text(*[1] * n) for n in range(1, 33)]], 3, Windowing(1), {})
    made = dataset.build_batches(examples, np.arange(32)[:, np.newaxis], 3)
    counts = [batch["input_ids"].shape[1] for batch in made]
    assert sorted(set(counts)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert all(1 <= made / n < 1.5 for n, made in enumerate(counts, 1))


def test_the_fingerprint_depends_on_tokens_windows_and_targets(tokenizer):
    def made(text="the film is a story", stride=2, label=0):
        targets = {"label_ids": np.array([label], np.int32)}
        return windowed.tokenize_windows(tokenizer, [[text]], 6, Windowing(stride), targets).fingerprint()

    assert made() == made()
    assert len({made(), made("the film is a film"), made(stride=1), made(stride=3), made(label=1)}) == 5


def test_logs_how_much_was_cut(tokenizer, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        windowed.tokenize_windows(tokenizer, [[_text(*range(9)), _text(1)]], 6, Windowing(2, 2), {}, "x.tsv")
    assert "3 windows; 1 examples have more than one window; 1 exceed `max_windows=2`" in caplog.text
    assert "lost 3 tokens" in caplog.text


def test_many_texts_are_tokenized_in_parts(tokenizer, monkeypatch):
    texts = [[_text(*range(i % 12)) for i in range(20)]]
    whole = windowed.tokenize_windows(tokenizer, texts, 6, Windowing(3), {})
    monkeypatch.setattr(windowed, "_CHUNK", 7)
    assert windowed.tokenize_windows(tokenizer, texts, 6, Windowing(3), {}).fingerprint() == whole.fingerprint()
