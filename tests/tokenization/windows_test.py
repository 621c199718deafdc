"""Windows of long texts: every token is in one, and the last ends where the text ends."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.tokenization.windows import find_windows


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
