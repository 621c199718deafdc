"""The tokenizers that run in the graph, by kind, and that of a model's directory."""

from bert_tf.models.family_spec import Family, InputTemplate
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.mecab import MecabTokenizer
from bert_tf.tokenization.sentencepiece_bpe import SentencePieceBpeTokenizer
from bert_tf.tokenization.table_registry import read_tables
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

_KINDS = (WordPieceTokenizer, ByteBpeTokenizer, UnigramTokenizer, SentencePieceBpeTokenizer, MecabTokenizer)
TOKENIZERS: dict[str, type[BaseTokenizer]] = {kind.KIND: kind for kind in _KINDS}


def read_tokenizer(
    directory: str, family: Family, template: InputTemplate, do_lower_case: bool | None = None, vocab_file=None
) -> BaseTokenizer:
    """Builds the tokenizer of a checkpoint directory; arguments and errors are those of `read_tables`."""
    return read_tables(directory, family, template, do_lower_case, vocab_file, TOKENIZERS)
