"""Sequences as BERT reads them, drawn by hand; truncation against Google's loop of pops; windows; questions."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.models import families
from bert_tf.models.family import InputTemplate
from bert_tf.tokenization.packing import check_question_lengths, encode_questions, find_windows
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import tiny
from tests.tokenization.reference import truncate_pair

PAD, UNK, CLS, SEP, A, B = range(6)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])


def ragged(rows):
    return tf.ragged.constant(rows, tf.int32, ragged_rank=1)


def lists(tensors):
    return {name: tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()
            for name, tensor in tensors.items()}  # fmt: skip


def test_one_text(tokenizer):
    packed = tokenizer.pack(ragged([[11, 12, 13, 14], [11], []]), max_seq_length=5)
    assert lists(packed) == {
        "input_ids": [[CLS, 11, 12, 13, SEP], [CLS, 11, SEP], [CLS, SEP]],
        "segment_ids": [[0, 0, 0, 0, 0], [0, 0, 0], [0, 0]],
    }
    assert {t.dtype for t in packed.values()} == {tf.int32}


def test_two_texts(tokenizer):
    packed = tokenizer.pack(ragged([[11, 12, 13, 14], [11], []]), ragged([[21, 22, 23], [21, 22, 23, 24, 25], []]), 8)
    assert lists(packed) == {
        "input_ids": [
            [CLS, 11, 12, 13, SEP, 21, 22, SEP],  # both longer than their half: the first keeps the odd token
            [CLS, 11, SEP, 21, 22, 23, 24, SEP],  # the first gives away what it does not need
            [CLS, SEP, SEP],
        ],
        "segment_ids": [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 1]],
    }


def test_padding(tokenizer):
    packed = tokenizer.pack(ragged([[11], [11, 12]]), ragged([[21], []]), 8)
    assert lists(tokenizer.pad(packed, 7)) == {
        "input_ids": [[CLS, 11, SEP, 21, SEP, PAD, PAD], [CLS, 11, 12, SEP, SEP, PAD, PAD]],
        "input_mask": [[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0, 0]],
    }
    longest = tokenizer.pad(packed)
    assert {tuple(t.shape) for t in longest.values()} == {(2, 5)}
    assert {t.dtype for t in longest.values()} == {tf.int32}


def test_padding_never_cuts(tokenizer):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="must fit the longest sequence. Received: 4; pack with that"
    ):
        tokenizer.pad(tokenizer.pack(ragged([[11, 12, 13]]), max_seq_length=5), 4)


def test_pairs_are_cut_as_pops_cut_them(tokenizer):
    lengths = [(a, b) for a in range(9) for b in range(9)]
    first = [[100 + i for i in range(a)] for a, _ in lengths]
    second = [[200 + i for i in range(b)] for _, b in lengths]
    for size in range(3, 21):
        got = tokenizer.pack(ragged(first), ragged(second), size)["input_ids"].to_list()
        cut = [truncate_pair(a, b, size - 3) for a, b in zip(first, second, strict=True)]
        assert got == [[CLS, *a, SEP, *b, SEP] for a, b in cut], size


def test_from_text_in_one_call_eager_and_in_a_graph(tokenizer):
    want = {
        "input_ids": [[CLS, A, SEP, B, B, SEP, PAD], [CLS, A, B, SEP, A, B, SEP]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 0], [1] * 7],
        "segment_ids": [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1]],
    }
    texts = ["A", "a b a"], ["b B", "a b b a"]
    assert lists(tokenizer(*texts, 7)) == want
    assert lists(tf.function(lambda a, b: tokenizer(a, b, 7), autograph=False)(*map(tf.constant, texts))) == want
    assert tokenizer(["a"])["input_ids"].shape == (1, 128)
    assert tokenizer(tf.constant([], tf.string), max_seq_length=6)["segment_ids"].shape == (0, 6)
    assert tokenizer.pad(tokenizer.pack(tokenizer.tokenize([])))["input_mask"].shape == (0, 0)


def test_no_room_for_the_special_tokens(tokenizer):
    assert tokenizer(["a"], max_seq_length=2)["input_ids"].numpy().tolist() == [[CLS, SEP]]
    with pytest.raises(ValueError, match=r"at least 2, .* Received: 1; raise `max_seq_length`"):
        tokenizer(["a"], max_seq_length=1)
    with pytest.raises(ValueError, match=r"at least 3, to hold .*\. Received: 2"):
        tokenizer(["a"], ["b"], max_seq_length=2)


STRANGE = InputTemplate(("a", "[CLS]"), ("[SEP]", "[SEP]"), ("[SEP]", "b"), second_segment=0)


def test_another_template():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
    tokenizer = Tokenizer(vocab, template=STRANGE)
    one = tokenizer.pack(ragged([[11, 12, 13, 14], []]), max_seq_length=6)
    assert lists(one)["input_ids"] == [[A, CLS, 11, 12, SEP, B], [A, CLS, SEP, B]]
    two = tokenizer.pack(ragged([[11, 12, 13, 14]]), ragged([[21, 22, 23]]), 10)
    assert lists(two) == {"input_ids": [[A, CLS, 11, 12, SEP, SEP, 21, 22, SEP, B]], "segment_ids": [[0] * 10]}
    bare = Tokenizer(vocab, template=InputTemplate((), (), ()))
    assert lists(bare.pack(ragged([[11]]), ragged([[21]]), 2)) == {"input_ids": [[11, 21]], "segment_ids": [[0, 1]]}
    message = r"at least 4, to hold the special tokens a \[CLS\] \[SEP\] b. Received: 3; raise"
    with pytest.raises(ValueError, match=message):
        tokenizer.pack(ragged([[11]]), max_seq_length=3)


def test_what_a_template_needs(tokenizer):
    with pytest.raises(ValueError, match="lacks the special token <s>. .* needs <s> .* 6 tokens without it: is it"):
        Tokenizer(tokenizer.vocab, template=InputTemplate(before=("<s>",)))
    single = Tokenizer(tokenizer.vocab, template=InputTemplate(segments=1))
    assert lists(single.pack(ragged([[11]]), max_seq_length=3))["segment_ids"] == [[0, 0, 0]]
    with pytest.raises(ValueError, match="does not support text pairs.* is 1, but the second"):
        single.pack(ragged([[11]]), ragged([[21]]), 8)


# === Windows ===
# How a text is cut into windows that overlap.


def _spans(lengths, room, stride):
    """Returns for each text the list of (start, end) of its windows."""
    cut = find_windows(lengths, room, stride)
    assert (np.diff(cut.rows) >= 0).all()
    spans = [[] for _ in lengths]
    for row, start, length in zip(*(part.numpy().tolist() for part in cut), strict=True):
        spans[row].append((start, start + length))
    return spans


def test_picture():
    assert _spans([8, 4, 5, 0], 4, 2) == [[(0, 4), (2, 6), (4, 8)], [(0, 4)], [(0, 4), (2, 5)], [(0, 0)]]


def test_windows_may_touch():
    assert _spans([9, 8], 4, 4) == [[(0, 4), (4, 8), (8, 9)], [(0, 4), (4, 8)]]


def test_each_text_may_have_its_own_room_and_then_strides_no_longer_than_it():
    assert _spans([5, 5, 3, 0], [5, 3, 1, 0], 2) == [
        [(0, 5)],
        [(0, 3), (2, 5)],
        [(0, 1), (1, 2), (2, 3)],
        [(0, 0)],  # an empty text needs no room
    ]


@pytest.mark.parametrize("room, stride", [(1, 1), (5, 1), (5, 3), (6, 6), (50, 25)])
def test_every_token_is_in_a_window_and_the_last_ends_where_the_text_ends(room, stride):
    lengths = np.arange(60)
    for length, spans in zip(lengths, _spans(lengths, room, stride), strict=True):
        assert {i for start, end in spans for i in range(start, end)} == set(range(length))
        assert [start for start, _ in spans] == [stride * i for i in range(len(spans))]
        assert all(end == start + room for start, end in spans[:-1])  # only the last one may be shorter
        assert spans[-1][1] == length and (len(spans) == 1 or spans[-2][1] < length)  # none says nothing new


def test_take_gives_each_window_its_tokens_in_the_graph_too():
    texts = tf.ragged.constant([[1, 2, 3, 4, 5], [], [6, 7]])

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)], autograph=False)
    def cut(texts):
        return find_windows(texts.row_lengths(), 3, 2).take(texts)

    assert cut(texts).to_list() == [[1, 2, 3], [3, 4, 5], [], [6, 7]]
    assert cut(texts[:0]).to_list() == []


# === Questions ===
# With a template that is not BERT's; tests/tasks/question_answering/rows_test.py draws BERT's.


GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
QUESTIONS = InputTemplate(("[CLS]",), ("[SEP]", "[SEP]"), ("[SEP]", "[CLS]"), second_segment=0)


@pytest.mark.usefixtures("run_eagerly")
def test_rows_and_where_their_tokens_came_from():
    tokenizer = Tokenizer(tiny.VOCAB, template=QUESTIONS)
    laid = encode_questions(tokenizer, tf.constant(["is it"]), tf.constant(["the film is good"]), 9, 1, 2)
    rows = [[tiny.VOCAB[i] for i in row] for row in laid.packed["input_ids"].to_list()]
    around = ["[CLS]", "is", "it", "[SEP]", "[SEP]"]
    assert rows == [[*around, "the", "film", "[SEP]", "[CLS]"], [*around, "film", "is", "[SEP]", "[CLS]"],
                    [*around, "is", "good", "[SEP]", "[CLS]"]]  # fmt: skip
    assert laid.starts.to_list()[0] == [-1] * 5 + [0, 4, -1, -1]
    assert laid.ends.to_list()[2] == [-1] * 5 + [11, 16, -1, -1]
    assert not laid.packed["segment_ids"].flat_values.numpy().any()


@pytest.mark.usefixtures("run_eagerly")
@pytest.mark.parametrize("kind", ["byte_bpe", "unigram"])
def test_rows_of_other_tokenizers(kind):
    path = GOLDENS / kind
    family = families.with_tokenizer(kind)
    tokenizer = read_tokenizer(path, family, family.template)
    context = "  The caf\u00e9 ``and''  the se\u0301a "
    laid = encode_questions(tokenizer, tf.constant(["the sea"]), tf.constant([context]), 18, 4, 3)
    template, tokens = tokenizer.template, tokenizer.tokenize([context]).to_list()[0]
    rows = laid.packed["input_ids"].to_list()
    assert len(rows) > 1
    question = tokenizer.tokenize(["the sea"]).to_list()[0][:3]
    between = [tokenizer.vocab.index(token) for token in template.between]
    covered = set()
    for row, starts, ends in zip(rows, laid.starts.to_list(), laid.ends.to_list(), strict=True):
        head = [tokenizer.vocab.index(template.before[0]), *question, *between]
        assert row[: len(head)] == head and starts[: len(head)] == [-1] * len(head) and starts[-1] == -1
        inside = row[len(head) : -1]
        assert any(inside == tokens[i : i + len(inside)] for i in range(len(tokens)))
        covered |= {n for a, b in zip(starts, ends, strict=True) if a >= 0 for n in range(a, b)}
    assert {i for i, char in enumerate(context) if char != " "} == covered  # every letter, and no space


def test_lengths_count_the_template():
    check_question_lengths(QUESTIONS, 8, 2, 1)
    with pytest.raises(ValueError, match=r"greater than `max_query_length` \+ 5, for the question, \[CLS\] .* 7 and 2"):
        check_question_lengths(QUESTIONS, 7, 2, 1)
    with pytest.raises(ValueError, match=r"`max_query_length` - 5 = 1, .* Received: 2"):
        check_question_lengths(QUESTIONS, 8, 2, 2)
