"""What must hold of every example, on real text: Project Gutenberg's and WikiText's."""

from collections import Counter

import numpy as np
import pytest

from bert_tf.pretraining.corpus import documents as arrays
from bert_tf.pretraining.corpus import examples as ex
from bert_tf.pretraining.corpus.document_tokenization import tokenize_documents
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.units import make_batches
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.documents import read_documents
from bert_tf.utils.names import MASKINGS
from bert_tf.utils.text_blocks import read_blocks
from bert_tf.utils.text_options import TextOptions
from tests.pretraining.corpus import support

TEXT = {"gutenberg": TextOptions(), "wikitext2": TextOptions(document_start=r"^= [^=]+ =$")}


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return WordPieceTokenizer.from_directory(minilm)


@pytest.fixture(scope="module", params=TEXT)
def documents(request, tokenizer):
    """Two megabytes of each corpus, as the parts of its documents, cut into shorter parts than usual."""
    paths, options = support.corpus(request.param), TEXT[request.param]
    parts, counts = [], Counter()
    for block in read_blocks(paths, ["prose"] * len(paths), options, 1 << 18):
        if block.line < 5000:
            parts.append(tokenize_documents(read_documents(block, options, counts), tokenizer, 0, 1 << 12))
    found = arrays.concatenate_documents(parts)
    return found.take(np.argsort(found.keys))


def _rows(documents, options, pieces):
    statistics = Statistics.empty(options, pieces.vocab_size)
    batches = list(make_batches(documents, options, pieces, 0, 0, statistics))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}, statistics


@pytest.fixture(scope="module")
def phrases(tmp_path_factory):
    path = tmp_path_factory.mktemp("laws") / "phrases.list"
    path.write_text("United States\nof the\nin the\nsaid the\nit was\none of the\nbetween the\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("max_predictions", [20, 5])
def test_the_laws_of_masking(documents, tokenizer, phrases, masking, max_predictions):
    phrase_file = phrases if masking == "phrase" else None
    pieces = MaskingVocabulary.of_tokenizer(tokenizer, phrase_file)
    options = CorpusOptions(masking=masking, max_predictions_per_seq=max_predictions, phrase_file=phrase_file)
    rows, _ = _rows(documents, options, pieces)
    chosen = rows["masked_lm_weights"] > 0
    tokens = rows["input_mask"].sum(1)
    budget = np.minimum(max_predictions, np.maximum(1, np.rint(0.15 * tokens)))
    if masking == "token":
        assert (chosen.sum(1) == budget).all()
    else:  # whole words may leave no word that fits, or be all longer than the budget
        assert (chosen.sum(1) == budget).mean() > 0.995 and (chosen.sum(1) >= 1).all()
        assert (chosen.sum(1) <= np.maximum(budget, max_predictions)).all()
    assert not pieces.special[rows["masked_lm_ids"][chosen]].any()
    row = np.nonzero(chosen)[0]
    original = rows["input_ids"].copy()
    original[row, rows["masked_lm_positions"][chosen]] = rows["masked_lm_ids"][chosen]
    _check_words(original, rows, chosen, pieces, whole=masking != "token")
    _check_shares(rows, chosen, pieces)


def _check_words(original, rows, chosen, pieces, whole):
    """Whether each piece that goes on with a word is chosen exactly where the piece before it is."""
    taken = np.zeros(original.shape, bool)
    taken[np.nonzero(chosen)[0], rows["masked_lm_positions"][chosen]] = True
    assert taken.sum() == chosen.sum() and not taken[rows["input_mask"] == 0].any()
    goes_on = pieces.edges.continues[original[:, 1:]] & ~pieces.special[original[:, :-1]]
    together = (taken[:, 1:] == taken[:, :-1])[goes_on]
    assert together.all() if whole else not together.all()


def _check_shares(rows, chosen, pieces):
    """80% [MASK], 10% kept, 10% random, within half a point on 100,000 choices, more on fewer."""
    seen = np.take_along_axis(rows["input_ids"], rows["masked_lm_positions"], 1)[chosen]
    ids = rows["masked_lm_ids"][chosen]
    margin = 0.005 * max(1, 100_000 / len(ids)) ** 0.5
    hidden, kept = (seen == pieces.mask_id).mean(), (seen == ids).mean()
    assert abs(hidden - 0.8) < margin and abs(kept - 0.1) < margin and abs(1 - hidden - kept - 0.1) < margin
    assert not pieces.special[seen[seen != pieces.mask_id]].any()


def test_the_laws_of_next_sentences(documents, tokenizer):
    examples = ex.next_sentence(documents, 128, 0.1, np.random.default_rng(0))
    part = [np.searchsorted(documents.tokens.splits, start, "right") - 1 for start in (examples[0], examples[2])]
    of_one_document = documents.ids[part[0]] == documents.ids[part[1]]
    random, possible = examples.label == 1, examples.forced == ex.CHOSEN
    assert not (random & of_one_document).any() and of_one_document[~random].all()
    assert abs(random[possible].mean() - 0.5) < 4 * 0.5 / possible.sum() ** 0.5
    assert 0 < (~possible).sum() < 0.2 * len(possible)


def test_the_report_counts_what_is_written(documents, tokenizer):
    pieces = MaskingVocabulary.of_tokenizer(tokenizer)
    rows, statistics = _rows(documents, CorpusOptions(), pieces)
    chosen = rows["masked_lm_weights"] > 0
    assert statistics.rows == statistics.examples == len(chosen) and statistics.chosen == chosen.sum()
    assert statistics.tokens == rows["input_mask"].sum() == rows["input_mask"].size - statistics.padding
    assert statistics.pairs.sum(1)[1] == rows["next_sentence_labels"].sum()
