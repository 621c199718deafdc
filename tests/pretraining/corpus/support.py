"""Small documents and vocabularies, drawn by hand or by chance."""

import os
import pathlib

import numpy as np
import pytest

from bert_tf.data.ragged import Ragged
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.pretraining.phrases import Phrases
from bert_tf.tokenization.token_edges import TokenEdges

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

WORDS = [f"w{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
VOCAB = [*SPECIAL, *WORDS, ".", "##s"]


def pieces(words=100, continuations=0, phrases=()) -> MaskingVocabulary:
    """Special pieces 0 to 4, then whole words, then pieces that go on with a word; and phrases of these ids."""
    names = SPECIAL + [f"w{n}" for n in range(words)] + [f"##c{n}" for n in range(continuations)]
    special = np.arange(len(names)) < 5
    continuation = np.array([name.startswith("##") for name in names])
    tree = Phrases.of(list(phrases), len(names)) if phrases else None
    edges = TokenEdges(continuation, np.zeros_like(continuation))
    return MaskingVocabulary((2,), (3,), (3,), 1, 0, 1, 4, special, edges, names, tree)


def documents(*texts, ids=None) -> Documents:
    """Documents of sentences of ids: documents([[5, 6], [7]], [[8]]) is one of two sentences and one of one."""
    sentences = [np.array(s, np.int32) for text in texts for s in text]
    lengths = np.array([len(s) for s in sentences], np.int32)
    return Documents(
        np.arange(len(texts), dtype=np.uint64),
        np.arange(len(texts)) if ids is None else np.array(ids),
        Ragged.of_lengths(np.concatenate(sentences), [sum(map(len, text)) for text in texts]),
        Ragged.of_lengths(lengths, [len(text) for text in texts]),
    )


def random_documents(rng, number=50, vocab=(5, 105), longest=30) -> Documents:
    """Documents of 1 to 40 sentences of 1 to `longest` pieces."""
    return documents(
        *(
            [rng.integers(*vocab, rng.integers(1, longest + 1)) for _ in range(rng.integers(1, 41))]
            for _ in range(number)
        )
    )


def corpus(name) -> list[str]:
    """The files of a real corpus, or a skip that says why."""
    folder = pathlib.Path(os.environ.get("BERT_TF_DATA", pathlib.Path.home() / ".cache" / "bert_tf_data")) / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there; BERT_TF_DATA names the folder that holds {name}")
    return sorted(str(path) for path in folder.iterdir())


def sentences(documents, part) -> list[list[int]]:
    """The sentences of one part, as lists of ids."""
    splits, starts = documents.sentences.splits, documents.sentence_starts
    return [documents.tokens.flat[starts[s] : starts[s + 1]].tolist() for s in range(splits[part], splits[part + 1])]


def job(folder, output_files, **options) -> CorpusJob:
    """What to make of the corpus of conftest.py."""
    paths = [str(folder / f"{n}.txt") for n in range(3)]
    chosen = CorpusOptions(**{"max_seq_length": 48, "max_predictions_per_seq": 8, "dupe_factor": 2, **options})
    return CorpusJob(
        paths, ["sentences"] * 3, [str(p) for p in output_files], str(folder / "vocab.txt"), options=chosen
    )
