"""Learning a vocabulary: counted words, the learner's search, and the program around them."""

import os
import pathlib
import time
from collections import Counter

import numpy as np
import pytest

from bert_tf.tokenization import learning, word_counts
from bert_tf.tokenization.vocabulary_fit import tokenize_words
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.text_options import TextOptions
from tests import processes, run_cases

STEMS = ("walk", "talk", "jump", "paint", "print", "climb", "lift", "melt", "sail", "burn", "hunt", "mark", "plant")
ENDINGS = ("", "s", "ed", "ing", "er", "ers")


def text(n=400, seed=0) -> list[str]:
    """Returns n sentences of regular words, some frequent and some rare."""
    rng = np.random.default_rng(seed)
    words = np.array([stem + ending for stem in STEMS for ending in ENDINGS])
    share = 1 / np.arange(1, len(words) + 1)
    return [" ".join(rng.choice(words, 8, p=share / share.sum())).capitalize() + "." for _ in range(n)]


@pytest.fixture(scope="module")
def counts():
    return word_counts.count_words([text()], True)


def program(*arguments):
    return processes.run("-m", "bert_tf", "train_vocabulary", *map(str, arguments))


def test_words_are_the_tokenizers():
    assert word_counts.count_words([["The cat, the CAT!"], ["Café 中文"]], True) == {
        "the": 2, "cat": 2, ",": 1, "!": 1, "cafe": 1, "中": 1, "文": 1,
    }  # fmt: skip
    assert word_counts.count_words([["The cat, the CAT!"]], False) == {
        "The": 1,
        "cat": 1,
        ",": 1,
        "the": 1,
        "CAT": 1,
        "!": 1,
    }


def test_split_says_of_which_text_each_word_is():
    words, rows = word_counts.WordCounter(True).split(["one Two", "", "three"])
    assert (words, rows.tolist()) == (["one", "two", "three"], [0, 0, 2])


def test_cutting_into_batches_changes_no_count(monkeypatch, counts):
    monkeypatch.setattr(word_counts, "_BATCH_CHARACTERS", 100)
    assert word_counts.count_words([[sentence] for sentence in text()], True) == counts


def test_a_full_counter_forgets_the_rarest():
    counter = word_counts.WordCounter(True, most_words=4)
    counter.add(["a a a b b c d"])
    assert counter.counts == {"a": 3, "b": 2, "c": 1, "d": 1}
    counter.add(["e b"])
    assert counter.counts == {"a": 3, "b": 3}
    assert counter.forgotten == 3


@pytest.mark.parametrize("vocab_size", (60, 75, 90))
def test_the_size_is_the_one_asked_for(counts, vocab_size):
    pieces = learning.learn_vocabulary(counts, vocab_size)
    assert len(pieces) == len(set(pieces)) == vocab_size


def test_order_special_pieces_characters_frequent_pieces(counts):
    pieces = learning.learn_vocabulary(counts, 90, unused_tokens=2)
    assert pieces[:7] == ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({char for word in counts for char in word} - {"."})
    assert pieces[7 : 8 + 2 * len(letters)] == [".", *letters, *(f"##{char}" for char in letters)]
    assert "##." not in pieces
    frequent = [word for word, _ in counts.most_common(4) if len(word) > 1]
    assert set(frequent) < set(pieces[8 + 2 * len(letters) :][:12])


def test_no_word_of_the_text_is_unknown(counts):
    tokenizer = WordPieceTokenizer(learning.learn_vocabulary(counts, 60))
    assert tokenizer.unk_id not in tokenize_words(tokenizer, list(counts)).flat_values.numpy()


def test_the_order_of_counting_does_not_matter(counts):
    other = Counter(dict(reversed(counts.items())))
    assert list(other) != list(counts)
    assert learning.learn_vocabulary(other, 80) == learning.learn_vocabulary(counts, 80)


def test_few_tries_and_the_rarest_are_left_out(monkeypatch):
    """A learner whose pieces follow Zipf's law finds 20000 of them at the rarest word's count, 50."""
    tried = []

    def learn(words, vocab_size, reserved, upper, lower, **_):
        assert upper == lower
        tried.append(upper)
        return [f"piece{i}" for i in range(int(20000 * (50 / upper) ** 0.8))]

    monkeypatch.setattr(learning.learner, "learn", learn)
    counts = Counter({f"word{i}": int(1e6 / (i + 1)) for i in range(20000)})
    pieces = learning.learn_vocabulary(counts, 8000)
    room = 8000 - pieces.index("piece0")
    assert pieces[-room:] == [f"piece{i}" for i in range(room)]
    assert len(tried) <= 4


def test_a_piece_occurs_min_count_times(caplog):
    counts = Counter({"aaa": 5, "bbb": 4, "ccc": 1})
    pieces = learning.learn_vocabulary(counts, 100, min_count=4)
    assert pieces[11:] == ["aaa", "bbb"]
    assert "yields only 13 tokens that occur 4 times or more, fewer than the requested 100" in caplog.text


def test_rare_characters_are_left_out(caplog):
    pieces = learning.learn_vocabulary(Counter({"aa": 9, "ab": 8, "axa": 1}), 9, max_characters=2)
    assert pieces[5:] == ["a", "b", "##a", "##b"]
    assert "3 distinct characters; the rarest 1 will be [UNK]" in caplog.text


def test_a_size_below_the_characters(counts):
    with pytest.raises(
        ValueError, match=r"`vocab_size` must be at least \d+, for 5 special tokens and \d+ characters"
    ):
        learning.learn_vocabulary(counts, 30)


def test_no_words():
    with pytest.raises(ValueError, match="The text contains no words"):
        learning.learn_vocabulary(Counter(), 100)


def test_every_hundredth_stretch_is_held_out():
    held_out, sentences = [], [str(i) for i in range(120 * 50)]
    learned = [sentence for part in word_counts.hold_out([sentences], held_out) for sentence in part]
    assert held_out == sentences[99 * 50 : 100 * 50]
    assert learned == sentences[: 99 * 50] + sentences[100 * 50 :]


def test_an_empty_corpus(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="(?i)text.*must hold|empty"):
        list(word_counts.read_sentences([os.fspath(tmp_path)], "sentences", TextOptions()))


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="none.txt"):
        list(word_counts.read_sentences([os.fspath(tmp_path / "none.txt")], None, TextOptions()))


@pytest.mark.slow
def test_the_program(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(text()), encoding="utf-8")
    done = program(
        f"--input_file={tmp_path / 'text.txt'}", "--vocab_size=80", f"--output_file={tmp_path / 'out' / 'vocab.txt'}",
        "--nodo_lower_case",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not WordPieceTokenizer.from_directory(tmp_path / "out").do_lower_case  # saved beside the vocabulary
    assert sorted(os.listdir(tmp_path / "out")) == ["tokenizer_config.json", "vocab.txt", "vocab.txt.report.txt"]
    assert WordPieceTokenizer(tmp_path / "out" / "vocab.txt").vocab_size == 80
    assert (tmp_path / "out" / "vocab.txt.report.txt").read_text(encoding="utf-8") in done.stdout
    assert "too optimistic" in done.stdout


def test_where_nothing_can_be_written_the_program_says_so_before_it_reads(tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "none").write_text("", encoding="utf-8")
    words = [f"--input_file={tmp_path / 'none'}", f"--output_file={tmp_path / 'file' / 'vocab.txt'}"]
    done = run_cases.run_here("train_vocabulary", words)
    assert done["status"] == 1 and "file" in done["log"] and "Traceback" not in done["log"], done["log"]
    assert "none" not in done["log"]
    assert sorted(os.listdir(tmp_path)) == ["file", "none"]


@pytest.mark.slow
def test_8000_pieces_from_gutenberg_in_two_minutes(tmp_path):
    data = pathlib.Path(os.environ.get("BERT_TF_DATA", pathlib.Path.home() / ".cache" / "bert_tf_data")) / "gutenberg"
    if not data.is_dir():
        pytest.skip(f"needs the texts in {data}")
    begin = time.monotonic()
    done = program(f"--input_file={data}", "--vocab_size=8000", f"--output_file={tmp_path / 'vocab.txt'}")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < 120
    assert len((tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()) == 8000
