"""Tokenized documents are joined and taken apart."""

from bert_tf.pretraining.corpus import documents as arrays
from tests.pretraining.corpus import support


def test_documents_are_joined_and_taken():
    documents = support.documents([[5, 6], [7]], [[8]])
    joined = arrays.concatenate_documents([documents, documents]).take([3, 0])
    assert [support.sentences(joined, part) for part in range(2)] == [[[8]], [[5, 6], [7]]]
