"""A left-to-right model stays one through every door: what is made of a piece does not depend on those behind it."""

import dataclasses
import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import bert_tf
from bert_tf.checkpoints.model_directory import read_model_directory, write_edited_model
from bert_tf.checkpoints.tf1 import write_tf1
from bert_tf.export.hub.export import export_hub
from bert_tf.export.hub.preprocessor import INPUTS
from bert_tf.inference.extract_features import FeatureMaker
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.sklearn.embedder import BertEmbedder
from bert_tf.tasks.embedding.task import EmbeddingTask
from tests import tiny
from tests.scripts import run_programs
from tests.tasks.tagging import support

TEXTS = ["the film is a great story of people", "the film is a dull cold good music"]
ALIKE = 5  # pieces, [CLS] among them
TRAIN = ["--init_checkpoint=HOME/left", "--bert_config_file=HOME/plain.json", "--do_train", "--do_export",
         "--max_seq_length=16", "--num_train_epochs=1", "--train_batch_size=4"]  # fmt: skip
TAGGER = [*TRAIN, "--train_file=HOME/train.txt", "--output_dir=HOME/tagger"]
CLASSIFIER = [*TRAIN, "--train_file=HOME/train.tsv", "--lstm_units=8", "--do_predict", "--predict_file=HOME/train.tsv",
              "--save_format=bert_tf", "--output_dir=HOME/classifier"]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with what `pretrain run` leaves, the configuration that it was given, and files to learn from."""
    folder = tmp_path_factory.mktemp("left_to_right")
    tiny.checkpoint(folder / "left", is_decoder=True)
    tiny.config().save(folder / "plain.json")
    keras.utils.set_random_seed(1)
    pretrainer = Pretrainer(tiny.config(is_decoder=True), next_sentence=False)
    write_tf1(str(folder / "left" / "bert_model.ckpt"), pretrainer.variables)
    support.write_columns(folder / "train.txt", support.sentences(8))
    tiny.write_tsv(folder / "train.tsv", tiny.texts(8))
    return folder


@pytest.fixture(scope="module")
def left(home):
    return bert_tf.load(home / "left")


@pytest.fixture(scope="module")
def rows(left):
    return left.tokenizer(TEXTS, max_seq_length=10)  # as long as they are


@pytest.fixture(scope="module")
def values(left, rows):
    """What the model makes of the pieces of `TEXTS`, float32 [2, S, H]."""
    values = left.encoder(rows)["sequence_output"].numpy()
    _check(values)
    return values


def _check(values):
    """The pieces before the first that differs have the same vectors, or answers, and the others do not."""
    one, other = values
    np.testing.assert_allclose(one[:ALIKE], other[:ALIKE], atol=1e-5)
    assert np.abs(one[ALIKE:] - other[ALIKE:]).max() > 1e-3


def _of_pieces(path):
    return [each.values for each in bert_tf.load(path).features(TEXTS, pooling=None)]


def _extracted(home):
    maker = FeatureMaker(str(home / "left"), (-1,), max_seq_length=16, config_file=str(home / "plain.json"))
    found = maker()(types.SimpleNamespace(texts=[TEXTS], ids=["0", "1"]))["features"]
    return np.split(found.flat, found.splits[1:-1])


def _saved(home):
    bert_tf.save(bert_tf.load(home / "left"), home / "huggingface", "huggingface")
    return _of_pieces(home / "huggingface")


def _operated(home):
    write_edited_model(read_model_directory(str(home / "left")), str(home / "operated"))
    return _of_pieces(home / "operated")


DOORS = {
    "features": lambda home: _of_pieces(home / "left"),
    "extract_features, by another configuration": _extracted,
    "saved as Hugging Face's": _saved,
    "surgery": _operated,
}


@pytest.mark.parametrize(
    "door", ["features", *(pytest.param(door, marks=pytest.mark.slow) for door in DOORS if door != "features")]
)
def test_what_comes_out_is_the_model(home, values, door):
    np.testing.assert_allclose(DOORS[door](home), values, atol=1e-5)


def test_a_vector_of_a_text_is_of_its_last_piece(home, values):
    vectors = SentenceEncoder(home / "left", pooling="last_token")(TEXTS)
    np.testing.assert_allclose(vectors, values[:, -1], atol=1e-5)


@pytest.mark.slow
def test_a_vector_for_scikit_learn_too(home, values):
    vectors = BertEmbedder(home / "left", pooling="last_token").fit(TEXTS).transform(TEXTS)
    np.testing.assert_allclose(vectors, values[:, -1], atol=1e-5)


@pytest.mark.slow
def test_the_hub_s_encoder_has_no_blanks_to_fill(home, left, rows, values):
    _, path = export_hub(home / "left", home / "hub")
    encoder = tf.saved_model.load(path)
    found = encoder({INPUTS[name]: each for name, each in rows.items()})
    np.testing.assert_allclose(found["sequence_output"], values, atol=1e-5)
    last = left.encoder.pooler(values[:, -1])
    np.testing.assert_allclose(found["pooled_output"], last, atol=1e-5)
    assert not hasattr(encoder, "mlm")


def _run(name, arguments, home):
    (said,) = run_programs(name, [[argument.replace("HOME", str(home)) for argument in arguments]])
    assert said["status"] == 0, said["log"]
    return said["log"]


@pytest.mark.slow
def test_a_tagger_is_trained_and_served_left_to_right(home, rows):
    log = _run("run_tagger", TAGGER, home)  # told of the model by the keys that google-research/bert has
    assert "plain.json does not set is_decoder: using true, as in" in log
    assert json.loads((home / "tagger" / "bert_config.json").read_text())["is_decoder"] is True
    serve = tf.saved_model.load(str(home / "tagger" / "export" / "1")).signatures["ids"]
    _check(serve(**rows)["probability"].numpy())
    (card,) = (home / "tagger" / "export" / "1").rglob("MODEL_CARD.md")
    assert "Its encoder is causal (left to right)" in card.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_classifier_learns_what_the_first_piece_has_not_seen(home):
    tiny.write_tsv(home / "many.tsv", tiny.texts(128))
    tiny.write_tsv(home / "dev.tsv", tiny.texts(64, seed=1))
    learns = ["--train_file=HOME/many.tsv", "--do_eval", "--eval_file=HOME/dev.tsv", "--train_batch_size=16",
              "--num_train_epochs=12", "--learning_rate=4e-3", "--output_dir=HOME/learned"]  # fmt: skip
    _run("run_classifier", [flag for flag in TRAIN if flag != "--do_export"] + learns, home)
    scores = dict(line.split(" = ") for line in (home / "learned" / "eval_results.txt").read_text().splitlines())
    assert float(scores["eval_accuracy"]) > 0.9


@pytest.mark.slow
def test_a_classifier_with_a_bilstm_is_served_as_it_was_trained(home):
    _run("run_classifier", CLASSIFIER, home)
    described = json.loads((home / "classifier" / "task.json").read_text())
    assert described["lstm_units"] == 8
    said = [json.loads(line) for line in (home / "classifier" / "predictions.jsonl").read_text().splitlines()]
    serve = tf.saved_model.load(str(home / "classifier" / "export" / "1")).signatures["serving_default"]
    served = serve(text=tf.constant([line["text"] for line in said]))["probabilities"].numpy()
    np.testing.assert_allclose(served, [[*line["probabilities"].values()] for line in said], atol=1e-5)
    assert np.ptp(served[:, 0]) > 1e-4
    for folder in ("classifier", "classifier/bert_tf"):
        bert = bert_tf.load(home / folder)
        assert bert.head is None and bert.config.is_decoder and "recurrent/lstm_0/kernel" in bert.others


@pytest.mark.slow
def test_a_foreign_classifier_reads_another_piece_than_there_and_the_log_says_so(home, left, caplog):
    bert_tf.save(left, home / "foreign", "huggingface", leave_out=["cls/.*"])
    weights = load_file(home / "foreign" / "model.safetensors")
    weights |= {"classifier.weight": np.ones((2, 32), np.float32), "classifier.bias": np.zeros(2, np.float32)}
    names = {name: name if name.startswith(("bert.", "classifier.")) else f"bert.{name}" for name in weights}
    save_file({names[name]: array for name, array in weights.items()},
              home / "foreign" / "model.safetensors", {"format": "pt"})  # fmt: skip
    bert_tf.load(home / "left")
    assert "sequence-level head" not in caplog.text
    assert bert_tf.load(home / "foreign").head is not None
    assert "model.safetensors is a causal (left-to-right) model (is_decoder) with a sequence-level head" in caplog.text


def test_what_the_first_piece_cannot_say_is_refused(home, left):
    message = r"`pooling=cls` cannot be used with a causal .left-to-right. model .* Use last_token, which"
    for ask in (
        lambda: left.features(TEXTS, pooling="cls"),
        lambda: SentenceEncoder(home / "left", pooling=["mean", "cls"]),
        lambda: EmbeddingTask(tiny.config(is_decoder=True), poolings=("cls",)),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_formats_that_would_forget_it_are_refused(home, left):
    head = {f"classifier/output_{part}": np.zeros(shape, np.float32) for part, shape in
            (("weights", (2, 32)), ("bias", (2,)))}  # fmt: skip
    classifier = dataclasses.replace(left, others=head)
    albert = dataclasses.replace(left, config=dataclasses.replace(left.config, model_type="albert"))
    for bert, form, message in (
        (left, "tf1", r"requires a BERT as in its modeling.py. This model has is_decoder=True"),
        (left, "keras_hub", "has no equivalent class"),
        (albert, "huggingface", "is_decoder with model_type='albert', whose encoder is bidirectional in Transformers"),
        (classifier, "huggingface", r"cannot have a sequence-level head.* `leave_out=classifier/\.\*`"),
    ):
        with pytest.raises(ValueError, match=message):
            bert_tf.save(bert, home / "refused", form)
    assert not (home / "refused").exists()


def test_a_configuration_that_says_otherwise_is_refused(home):
    said = json.loads((home / "plain.json").read_text()) | {"is_decoder": False}
    (home / "otherwise.json").write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(ValueError, match=r"contradicts .*: is_decoder is false in .*otherwise\.json"):
        bert_tf.load(home / "left", config_file=home / "otherwise.json")
    assert bert_tf.load(home / "left", config_file=home / "left" / "bert_config.json").config.is_decoder
