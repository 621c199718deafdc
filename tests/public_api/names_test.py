"""The names of `bert_tf`: each can be had, and a wrong one is answered with those that there are."""

import pytest

import bert_tf


def test_public_names():
    assert all(getattr(bert_tf, name) for name in bert_tf.__all__)
    with pytest.raises(AttributeError, match="module 'bert_tf' has no attribute 'Lode'; it has "):
        bert_tf.Lode  # noqa: B018
