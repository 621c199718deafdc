"""Sequences as BERT reads them, drawn by hand; truncation against Google's loop of pops; padding."""

import pytest
import tensorflow as tf

from bert_tf.models.family_spec import InputTemplate
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.tokenization.reference import truncate_pair

PAD, UNK, CLS, SEP, A, B = range(6)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])


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
        tf.errors.InvalidArgumentError, match="must fit the longest sequence; got 4; pack with that"
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
    with pytest.raises(ValueError, match=r"at least 2, .* got 1; raise `max_seq_length`"):
        tokenizer(["a"], max_seq_length=1)
    with pytest.raises(ValueError, match=r"at least 3, to fit .*; got 2; raise"):
        tokenizer(["a"], ["b"], max_seq_length=2)


STRANGE = InputTemplate(("a", "[CLS]"), ("[SEP]", "[SEP]"), ("[SEP]", "b"), second_segment=0)


def test_another_template():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]
    tokenizer = WordPieceTokenizer(vocab, template=STRANGE)
    one = tokenizer.pack(ragged([[11, 12, 13, 14], []]), max_seq_length=6)
    assert lists(one)["input_ids"] == [[A, CLS, 11, 12, SEP, B], [A, CLS, SEP, B]]
    two = tokenizer.pack(ragged([[11, 12, 13, 14]]), ragged([[21, 22, 23]]), 10)
    assert lists(two) == {"input_ids": [[A, CLS, 11, 12, SEP, SEP, 21, 22, SEP, B]], "segment_ids": [[0] * 10]}
    bare = WordPieceTokenizer(vocab, template=InputTemplate((), (), ()))
    assert lists(bare.pack(ragged([[11]]), ragged([[21]]), 2)) == {"input_ids": [[11, 21]], "segment_ids": [[0, 1]]}
    message = r"at least 4, to fit the special tokens a \[CLS\] \[SEP\] b; got 3; raise"
    with pytest.raises(ValueError, match=message):
        tokenizer.pack(ragged([[11]]), max_seq_length=3)


def test_what_a_template_needs(tokenizer):
    message = r"must contain \[PAD\], \[UNK\], <s>, .* has 6 lines, but lacks <s>\. It may belong"
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer(tokenizer.vocab, template=InputTemplate(before=("<s>",)))
    single = WordPieceTokenizer(tokenizer.vocab, template=InputTemplate(segments=1))
    assert lists(single.pack(ragged([[11]]), max_seq_length=3))["segment_ids"] == [[0, 0, 0]]
    with pytest.raises(ValueError, match="does not support text pairs.* is 1, but the second"):
        single.pack(ragged([[11]]), ragged([[21]]), 8)
