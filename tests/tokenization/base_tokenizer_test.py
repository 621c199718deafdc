"""The first calls of a tokenizer need no graph, which takes longer to trace than they do."""

import pytest
import tensorflow as tf

from bert_tf.tokenization import base_tokenizer
from tests.tokenization.fast_tokenizer_test import MAKERS


def test_a_graph_is_traced_after_the_first_calls():
    eager = []

    def function(texts):
        eager.append(tf.executing_eagerly())
        return texts + "!"

    call = base_tokenizer._traced_when_it_pays(function)
    answers = [call(tf.constant(["a"])).numpy().tolist() for _ in range(base_tokenizer._FIRST_CALLS + 2)]
    assert eager == [True] * base_tokenizer._FIRST_CALLS + [False] and answers == [[b"a!"]] * len(answers)


@pytest.mark.parametrize("name", ["wordpiece", "byte_bpe", "unigram"])
def test_ids_are_the_same_before_and_after(name):
    tokenizer, texts = MAKERS[name](), ["A good film, naïve people", "", "x"]
    found = [tokenizer.tokenize(texts).to_list() for _ in range(base_tokenizer._FIRST_CALLS + 1)]
    assert found == [found[0]] * len(found) and any(found[0])
