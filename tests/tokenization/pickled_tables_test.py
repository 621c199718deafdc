"""Pickles of tokenizers: the ids and settings of the original, and files of their own for exports."""

import copy
import gc
import os
import pickle
import unicodedata

import pytest

from bert_tf.tokenization.table_registry import describe_tables
from tests.tokenization import added_tokens_test as added
from tests.tokenization import material
from tests.tokenization.fast_tokenizer_test import MAKERS

pytestmark = pytest.mark.usefixtures("run_eagerly")
TEXTS = ["Unaffable! The naïve café, 12,5 % off.", "  two  spaces\n", "图书馆 😀", ""]
LETTERS = sorted({c for text in TEXTS for c in text + unicodedata.normalize("NFD", text.lower()) if not c.isspace()})
VOCAB = [*material.SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]


def make(name):
    return MAKERS[name](vocab=VOCAB) if name.startswith("wordpiece") else MAKERS[name]()


def lists(tokenizer):
    return [each.to_list() for each in tokenizer.tokenize_with_offsets(TEXTS)]


@pytest.mark.parametrize("name", MAKERS)
def test_a_pickle_tokenizes_the_same(name):
    tokenizer = make(name)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert type(again) is type(tokenizer) and describe_tables(again) == describe_tables(tokenizer)
    assert lists(again) == lists(tokenizer) and again.vocab == tokenizer.vocab


@pytest.mark.parametrize("name", added.NAMES)
def test_added_tokens_are_kept(name):
    tokenizer, texts = added.make(name), added.golden()["texts"]
    again = copy.deepcopy(tokenizer)
    assert again.added_tokens == tokenizer.added_tokens != ()
    assert again.tokenize(texts).to_list() == tokenizer.tokenize(texts).to_list()


def test_its_files_exist_as_long_as_it_does():
    again = pickle.loads(pickle.dumps(make("wordpiece")))
    folder = os.path.dirname(again.asset_file)
    assert os.path.isfile(again.asset_file)
    twice = pickle.loads(pickle.dumps(again))
    del again
    gc.collect()
    assert not os.path.exists(folder) and os.path.isfile(twice.asset_file)
