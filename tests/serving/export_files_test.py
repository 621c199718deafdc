"""Files that an export has next to its graph."""

import pytest

from bert_tf.export.saved_model import write_export_tokenizer
from bert_tf.models.family_registry import family
from bert_tf.serving.server.export_files import read_export_tokenizer, read_task_file
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.utils.names import TOKENIZER_FOLDER
from tests import parity

GOLDENS = parity.GOLDENS / "tokenizers"
KINDS = {
    "roberta": (ByteBpeTokenizer, "byte_bpe"),
    "modernbert": (ByteBpeTokenizer, "modernbert"),
    "albert": (UnigramTokenizer, "unigram"),
    "deberta-v2": (UnigramTokenizer, "deberta"),
}
TEXTS = ["A fine film, über-naïve  [MASK] <s>", "中文 and ½", "", "\u00a0 don't!"]


@pytest.mark.parametrize("model_type", KINDS)
def test_the_tokenizer(tmp_path, model_type):
    kind, folder = KINDS[model_type]
    tokenizer = kind.from_directory(GOLDENS / folder, family=family(model_type))
    write_export_tokenizer(tmp_path / TOKENIZER_FOLDER, tokenizer)
    found, expected = read_export_tokenizer(str(tmp_path)), load_fast_tokenizer(tokenizer)
    assert [found.tokenize_with_offsets(text) for text in TEXTS] == [
        expected.tokenize_with_offsets(text) for text in TEXTS
    ]
    assert found.tables.template == tokenizer.template


def test_without_or_with_damaged_files(tmp_path, log):
    assert read_export_tokenizer(str(tmp_path)) is None
    assert read_task_file(str(tmp_path)) == {}
    (tmp_path / "assets.extra").mkdir()
    for text in ("[]", "{", '{"a": ' * 10**5):
        (tmp_path / "assets.extra" / "task.json").write_text(text)
        assert read_task_file(str(tmp_path)) == {}
        assert "task.json is not read: " in log.pop()
    (tmp_path / TOKENIZER_FOLDER).mkdir()
    for text in (
        "[]", "{", '{"kind": "wordpiece"}', '{"a": ' * 10**5, '{"kind": ["wordpiece"], "template": {}, "settings": {}}',
        '{"kind": "wordpiece", "template": 3, "settings": []}', '{"kind": "unigram", "template": [], "settings": "a"}',
        '{"kind": "byte_bpe", "template": {"before": 3, "after": null}, "settings": {}}',
    ):  # fmt: skip
        (tmp_path / TOKENIZER_FOLDER / "tokenizer_tables.json").write_text(text)
        assert read_export_tokenizer(str(tmp_path)) is None
        assert "tokenizer is not read: " in log.pop()
