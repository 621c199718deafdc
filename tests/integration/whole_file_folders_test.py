"""A folder with tokenizer.json and no vocab.txt, as Transformers 5 writes it, is a model for every part of bert_tf."""

import json
import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints import vocabulary_extension
from bert_tf.checkpoints.loading import has_vocabulary
from bert_tf.checkpoints.model_directory import read_model_directory, write_edited_model
from bert_tf.export.conversion.convert import convert_model
from bert_tf.export.hub.preprocessor import Preprocessor
from bert_tf.export.hub.tokenizer_layer import TokenizerLayer
from bert_tf.models import family_registry
from bert_tf.tokenization.registry import read_tokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import scripts, tiny
from tests.conftest import ROOT

WHOLE = ROOT / "tests" / "goldens" / "tokenizers" / "whole"
TEXTS = [" ".join([*tiny.GOOD, "Unheard", tiny.FILL[0].upper()]), f"{tiny.BAD[0]}s, {tiny.FILL[1]}."]
EXAMPLES = tiny.texts(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tiny.checkpoint(tmp_path_factory.mktemp("whole") / "model")
    WordPieceTokenizer.from_directory(path).save(path)
    (path / "vocab.txt").unlink()
    assert sorted(name for name in os.listdir(path) if name.startswith(("tokenizer", "vocab"))) == [
        *("tokenizer.json", "tokenizer_config.json"),
    ]
    return path


@pytest.fixture(scope="module")
def expected():
    return WordPieceTokenizer(tiny.VOCAB).tokenize(TEXTS).to_list()


def test_it_is_loaded(folder, expected):
    assert has_vocabulary(folder)
    bert = bert_tf.load(folder)
    assert bert.tokenizer.tokenize(TEXTS).to_list() == expected and bert.tokenizer.vocab == [*tiny.VOCAB]
    assert bert.tokenizer.max_input_chars_per_word == 200


def test_it_is_the_tokenizer_of_a_keras_model(folder, expected, tmp_path):
    text = keras.Input((), dtype="string")
    keras.Model(text, TokenizerLayer(folder, 16)(text)).save(tmp_path / "model.keras")
    rows = keras.models.load_model(tmp_path / "model.keras")(tf.constant(TEXTS))
    for row, ids in zip(rows["input_ids"].numpy(), expected, strict=True):
        assert row[: len(ids) + 2].tolist() == [2, *ids, 3]


@pytest.mark.slow
def test_the_assets_of_a_hub_module_are_what_its_readers_know(folder, expected, tmp_path):
    module = Preprocessor(WordPieceTokenizer.from_directory(folder), 16)
    tf.saved_model.save(module, str(tmp_path / "hub"), signatures={})
    loaded = tf.saved_model.load(str(tmp_path / "hub"))
    path = loaded.vocab_file.asset_path.numpy().decode()
    assert os.path.basename(path) == "vocab.txt"
    assert pathlib.Path(path).read_text(encoding="utf-8").split("\n") == [*tiny.VOCAB, ""]
    assert loaded.tokenize(tf.constant(TEXTS)).merge_dims(1, 2).to_list() == expected


@pytest.mark.slow
def test_the_asset_of_a_unigram_tokenizer_is_its_model(tmp_path):
    albert = family_registry.family("albert")
    tokenizer = read_tokenizer(WHOLE / "5/albert", albert, albert.template)
    tf.saved_model.save(Preprocessor(tokenizer, 16), str(tmp_path / "hub"), signatures={})
    path = tf.saved_model.load(str(tmp_path / "hub")).sp_model_file.asset_path.numpy().decode()
    assert os.path.basename(path) == "spiece.model"
    again = UnigramTokenizer(path, albert.template, True, keep_accents=False, straight_quotes=True)
    text = ["The sea, the ship."]
    assert again.tokenize(text).to_list() == tokenizer.tokenize(text).to_list()


@pytest.mark.slow
def test_it_is_converted_and_operated_on(folder, expected, tmp_path):
    write_edited_model(read_model_directory(str(folder)), str(tmp_path / "surgery"))
    for form in ("sentence_transformers", "tf1"):  # the first of them writes as Transformers does, and more
        convert_model(folder, tmp_path / form, form)
    for name in ("surgery", "sentence_transformers", "tf1"):
        tokenizer = WordPieceTokenizer.from_directory(tmp_path / name)
        assert tokenizer.vocab_file == str(tmp_path / name / "tokenizer.json")
        assert tokenizer.tokenize(TEXTS).to_list() == expected


@pytest.mark.slow
def test_words_are_added_to_it(folder, tmp_path):
    description = bert_tf.checkpoints.loading.load_description([str(folder)])
    extension = vocabulary_extension.Extension.of(description.tokenizer, ["unheard"])
    vocabulary_extension.write_extended_model(str(folder), str(tmp_path / "more"), extension, description)
    more = bert_tf.load(tmp_path / "more")
    assert more.tokenizer.vocab == [*tiny.VOCAB, "unheard"]
    assert more.tokenizer.tokenize(["Unheard"]).to_list() == [[len(tiny.VOCAB)]]
    whole = json.loads((tmp_path / "more" / "tokenizer.json").read_text(encoding="utf-8"))
    assert whole["model"]["vocab"]["unheard"] == len(tiny.VOCAB)


@pytest.mark.slow  # a run of run_classifier; loading, conversion and operations on it stay among the fast ones
def test_it_is_trained_and_what_is_exported_answers_the_same(folder, tmp_path):
    tiny.write_tsv(tmp_path / "data.tsv", EXAMPLES)
    data = [f"--{name}_file={tmp_path}/data.tsv" for name in ("train", "predict")]
    arguments = [
        *data, f"--init_checkpoint={folder}", f"--output_dir={tmp_path}/out", "--do_train", "--do_predict",
        "--do_export", "--max_seq_length=16", "--train_batch_size=8", "--num_train_epochs=1", "--text_column=text",
        "--label_column=label",
    ]  # fmt: skip
    (result,) = scripts.run_programs("run_classifier", [arguments])
    assert result["status"] == 0, result["log"]
    lines = (tmp_path / "out" / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    written = [[*json.loads(line)["probabilities"].values()] for line in lines]
    (export,) = (tmp_path / "out" / "export").glob("[0-9]*")
    serve = tf.saved_model.load(str(export)).signatures["serving_default"]
    answered = serve(text=tf.constant([text for text, _ in EXAMPLES]))["probabilities"]
    np.testing.assert_allclose(answered, written, atol=1e-5)


@pytest.mark.slow  # two programs
def test_records_for_pretraining_are_made_by_it(folder, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    (tmp_path / "text.txt").write_text("\n".join(text for text, _ in tiny.texts(40)), encoding="utf-8")
    common = [f"--input_file={tmp_path}/text.txt", "--max_seq_length=16", "--max_predictions_per_seq=2"]
    common += ["--sentence_objective=none"]
    cases = [
        [*common, f"--vocab_file={vocabulary}", f"--output_file={tmp_path}/{name}/train.tfrecord"]
        for name, vocabulary in (("lines", tmp_path / "vocab.txt"), ("whole", folder / "tokenizer.json"))
    ]
    for result in scripts.run_programs("create_pretraining_data", cases):
        assert result["status"] == 0, result["log"]
    lines, whole = ((tmp_path / name / "train.tfrecord").read_bytes() for name in ("lines", "whole"))
    assert lines == whole and lines
    beside = tmp_path / "whole" / "train_vocabulary" / "vocab.txt"
    assert beside.read_text(encoding="utf-8").split("\n") == [*tiny.VOCAB, ""]
