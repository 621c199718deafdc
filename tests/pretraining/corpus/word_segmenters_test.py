"""Whole words where no spaces are written: the tokens stay, and what a segmenter calls a word is masked together."""

import re
import sys

import numpy as np
import pytest

from bert_tf.pretraining.corpus.document_tokenization import tokenize_documents
from bert_tf.pretraining.corpus.documents import CONTINUES
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.options import CorpusOptions
from bert_tf.pretraining.corpus.units import make_batches
from bert_tf.pretraining.corpus.word_segmenters import WordSegmenter
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.documents import Document
from tests.pretraining import families
from tests.pretraining.corpus import support

# The example of Cui et al. 2019 (BERT-wwm): the words, and the tokens with the marks by which they are masked together.
WORDS = ["使用", "语言", "模型", "来", "预测", "下", "一个", "词", "的", "probability", "。"]
MARKED = [
    *("使", "##用", "语", "##言", "模", "##型", "来", "预", "##测", "下", "一", "##个", "词", "的", "pro", "##ba"),
    *("##bility", "。"),
]
TEXT = "".join(WORDS)
VOCAB = [*support.SPECIAL, *sorted({*TEXT} - {*"probaility"}), "pro", "##ba", "##bility"]


def words_of(text):
    """A segmenter of one's own."""
    return WORDS if text == TEXT else [*text]


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCAB)


def _tokens(tokenizer, text, segmenter=None):
    made = tokenize_documents([Document(0, 1, 1, [text])], tokenizer, 0, segmenter=segmenter)
    return made.tokens.flat


@pytest.mark.parametrize(("name", "text"), [
    (f"{__name__}:words_of", TEXT), ("pretokenized", " ".join(WORDS)), ("jieba", TEXT),
])  # fmt: skip
def test_the_marks_are_those_of_the_published_example(tokenizer, name, text):
    if name == "jieba":
        pytest.importorskip("jieba", reason="needs jieba (bert-tf[chinese])")
    flat = _tokens(tokenizer, text, WordSegmenter(name))
    ids, continues = flat & ~CONTINUES, flat & CONTINUES != 0
    np.testing.assert_array_equal(ids, _tokens(tokenizer, TEXT))
    pieces = [VOCAB[i] for i in ids]
    marked = [piece if piece.startswith("##") or not joined else f"##{piece}"
              for piece, joined in zip(pieces, continues, strict=True)]  # fmt: skip
    assert marked == MARKED


def test_words_are_masked_together_and_ids_stay(tokenizer):
    options = CorpusOptions(max_seq_length=20, max_predictions_per_seq=6, masked_lm_prob=0.3, masking="whole_word",
                            mask_token_prob=1, random_token_prob=0, sentence_objective="none", short_seq_prob=0,
                            word_segmenter=f"{__name__}:words_of")  # fmt: skip
    segmenter = WordSegmenter(options.word_segmenter)
    texts = [Document(0, n + 1, n + 1, [TEXT]) for n in range(200)]
    documents = tokenize_documents(texts, tokenizer, 0, segmenter=segmenter)
    (rows,) = make_batches(documents, options, MaskingVocabulary.of_tokenizer(tokenizer), 0, 0)
    original = rows["input_ids"].copy()
    np.put_along_axis(original, rows["masked_lm_positions"], rows["masked_lm_ids"], 1)  # 0 for padding, at [CLS]
    hidden = rows["input_ids"] == tokenizer.mask_id
    groups = np.cumsum([not piece.startswith("##") for piece in MARKED])
    together = np.array([[hidden[:, 1:-1][:, groups == group].mean(1) for group in range(1, len(WORDS) + 1)]])
    assert hidden.sum() == (rows["masked_lm_weights"] > 0).sum() and hidden.any(0)[1:-1].all()
    assert np.isin(together, (0, 1)).all()
    assert (original[:, 1:-1] == _tokens(tokenizer, TEXT)).all()


def test_white_space_is_part_of_no_word():
    segmenter = WordSegmenter("pretokenized")
    assert segmenter(" 使用  语言").tolist() == [-1, 0, 0, -1, -1, 1, 1]


def _other_words(text):
    return {"lost": ["使用"], "changed": ["使 用", "语言"], "text": "使用语言", "numbers": [1, 2]}[text.split()[-1]]


BAD = {
    "使用语言 lost": "must return all words of a text. The words end before '语言 lost'.",
    "changed": "unchanged and in order; got '使 用' instead of the beginning of 'changed'",
    "text": "must return the words of a text; got str for 'text'; return a list of str",
    "numbers": "unchanged and in order; got 1 instead",
}


@pytest.mark.parametrize("text", BAD)
def test_words_that_are_not_those_of_the_text(text):
    with pytest.raises(ValueError, match=BAD[text]):
        WordSegmenter(f"{__name__}:_other_words")(text)


@pytest.mark.parametrize(("name", "message"), [
    ("mecab", "must be jieba, pretokenized or MODULE:FUNCTION; got 'mecab'"),
    (":words", "must be jieba, pretokenized or MODULE:FUNCTION"),
    ("no_such_module:words", "module no_such_module cannot be imported: .* add its directory to PYTHONPATH"),
    (f"{__name__}:WORDS", "has no function WORDS"),
    ("json:split", "json has no function split. Check the name"),
])  # fmt: skip
def test_a_segmenter_that_is_not_there(name, message):
    with pytest.raises(ValueError, match=message):
        WordSegmenter(name)


def test_without_its_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    message = "`word_segmenter=jieba` requires jieba. Install it: pip install 'bert-tf[chinese]'"
    with pytest.raises(ValueError, match=re.escape(message)):
        WordSegmenter("jieba")


def test_words_between_spaces_need_wordpiece(tmp_path):
    families.tokenizer_of(tmp_path / "roberta", "roberta")
    options = CorpusOptions(masking="whole_word", word_segmenter="pretokenized")
    job = CorpusJob([], [], [], model_directory=str(tmp_path / "roberta"), do_lower_case=None, options=options)
    with pytest.raises(ValueError, match="requires a WordPiece tokenizer, .* got byte_bpe"):
        job.make_segmenter()


def test_single_tokens_have_no_words():
    with pytest.raises(ValueError, match="`word_segmenter` requires a masking of words; got `masking=token`"):
        CorpusOptions(word_segmenter="jieba")
