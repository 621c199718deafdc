"""Old names of the public Python API: each still works, and warns the line that uses it of the new name."""

import importlib

import pytest

from bert_tf.interpret.page.contents import PageOptions, _choose_views
from bert_tf.serving.client.client import Client

OLD_NAMES = [
    ("bert_tf", "Tokenizer", "WordPieceTokenizer"),
    ("bert_tf.tokenization.wordpiece", "Tokenizer", "WordPieceTokenizer"),
    ("bert_tf.inspect", "heads_off", "ablate_heads"),
    ("bert_tf.inspect", "masked_words", "logit_lens"),
    ("bert_tf.inspect", "MaskedWords", "LogitLens"),
    ("bert_tf.export.conversion.round_trip", "Proof", "ConversionReport"),
    ("bert_tf.evaluation.squad_files", "read_golds", "read_references"),
    ("bert_tf.serving.client.results", "Blank", "MaskPrediction"),
]  # fmt: skip


def _module(name):
    import bert_tf

    return bert_tf.inspect if name == "bert_tf.inspect" else importlib.import_module(name)


@pytest.mark.parametrize(("module", "old", "new"), OLD_NAMES)
def test_an_old_name_is_the_new_one_with_a_warning(module, old, new):
    module = _module(module)
    with pytest.warns(DeprecationWarning, match=f"^`{old}` is now `{new}`.$") as warned:
        found = getattr(module, old)
    assert found is getattr(module, new) and found.__name__ == new and warned[0].filename == __file__
    assert old not in getattr(module, "__all__", ())
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        module.lode  # noqa: B018


def test_an_import_of_an_old_name_is_what_is_warned_of():
    with pytest.warns(DeprecationWarning, match="`Tokenizer` is now `WordPieceTokenizer`") as warned:
        from bert_tf import Tokenizer
    assert Tokenizer.__name__ == "WordPieceTokenizer" and {each.filename for each in warned} == {__file__}


def test_an_old_argument_of_the_client():
    with (
        pytest.warns(DeprecationWarning, match="`max_answer_bytes` is now `max_response_bytes`") as warned,
        Client("localhost:1", max_answer_bytes=2**20) as client,
    ):
        assert client._questions.max_response_bytes == 2**20 and warned[0].filename == __file__
    with pytest.raises(TypeError, match="`max_response_bytes` was passed twice: `max_answer_bytes` is its old name"):
        Client("localhost:1", max_answer_bytes=2**20, max_response_bytes=2**20)


def test_an_old_view_of_a_page():
    with pytest.warns(DeprecationWarning, match="The view `masked_words` is now `logit_lens`"):
        assert _choose_views(PageOptions("masked_words")) == ["logit_lens"]
