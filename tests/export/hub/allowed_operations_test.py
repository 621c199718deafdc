"""What this package exports only computes by the list: each task, number format, processor and tokenizer."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.hub.encoder import HubEncoder
from bert_tf.export.hub.inspection import inspect_model
from bert_tf.export.hub.layer import HubLayer
from bert_tf.export.hub.preprocessor import Preprocessor
from bert_tf.export.hub.tokenizer_layer import TokenizerLayer
from bert_tf.inference.fill_mask import Filler
from bert_tf.models.encoder import Encoder
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.names import EXPLANATIONS
from tests import tiny
from tests.export.models import TASKS

TOKENIZERS = pathlib.Path(__file__).parents[2] / "goldens" / "tokenizers"
FAMILIES = {
    "bert": {},
    "albert": {"embedding_size": 8, "num_hidden_groups": 1},
    "electra": {"embedding_size": 8},
    "roberta-prelayernorm": {"type_vocab_size": 1},
    "distilbert": {},
}
FORMS = [ExportOptions(dtype, kind) for dtype in ("float32", "bfloat16", "int8") for kind in ("portable", "cpu")]
FAST = {("classification", ExportOptions())}
CASES = [pytest.param(name, form, id=f"{name}-{form.dtype}-{form.export_for}",
                      marks=() if (name, form) in FAST else pytest.mark.slow)
         for name in TASKS for form in FORMS]  # fmt: skip


def _only_computes(*paths):
    found = [each for path in paths for each in inspect_model(str(path)).values()]
    assert found and [each.faults for each in found] == [[] for _ in found]
    return found


@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_task_s_export_only_computes(exported, name, form):
    (found,) = _only_computes(exported(name, form))
    assert any(line.startswith("serving_default: ") for line in found.signatures) and len(found.operations) > 30


@pytest.mark.slow
def test_exports_that_explain_only_compute(exported):
    _only_computes(exported("classification", ExportOptions(explanations=tuple(EXPLANATIONS))))


@pytest.mark.slow
def test_exports_that_fill_in_only_compute(pretrained, tmp_path):
    filler = Filler(pretrained)
    _only_computes(
        *(
            filler.export(str(tmp_path / form.dtype), form)
            for form in (ExportOptions(), ExportOptions("bfloat16", "cpu"))
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ByteBpeTokenizer, UnigramTokenizer])
def test_every_tokenizer_only_computes(kind, tmp_path):
    tokenizer = kind.from_directory(TOKENIZERS / kind.KIND)
    tf.saved_model.save(Preprocessor(tokenizer, 12), str(tmp_path / "preprocessor"), signatures={})
    text = keras.Input((), dtype="string")
    keras.Model(text, TokenizerLayer(tokenizer, 12)(text)).export(str(tmp_path / "keras"), verbose=False)
    _only_computes(tmp_path / "preprocessor", tmp_path / "keras")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_with_its_dropout_only_computes(family, tmp_path):
    encoder = Encoder(tiny.config(0.1, model_type=family, **FAMILIES[family]))
    encoder.build()
    tf.saved_model.save(HubEncoder(encoder, WordPieceTokenizer(tiny.VOCAB)), str(tmp_path / "hub"), signatures={})
    _check_keras_file(tmp_path / "hub", tmp_path)


@pytest.mark.slow
def test_an_encoder_in_a_keras_file_only_computes(hub_pair, tmp_path):
    _check_keras_file(hub_pair[1], tmp_path)


def _check_keras_file(hub, folder):
    _only_computes(hub)
    ids = keras.Input((None,), dtype="int32")
    inputs = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": ids * 0}
    model = keras.Model(ids, HubLayer(hub)(inputs)["pooled_output"])
    model.save(folder / "model.keras")
    _only_computes(folder / "model.keras")
    ids = tf.constant([[1, 2, 3]])
    again = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(again(ids), model(ids), atol=1e-6)
