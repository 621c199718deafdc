"""From pairs to a trained model that embeds, exports and converts: the same vectors everywhere."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.features import keras_inputs
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.models.pooling import PooledFeatures
from bert_tf.models.sentence_files import PoolingConfig, read_recipe
from bert_tf.tasks.embedding import EmbeddingTask
from bert_tf.tasks.registry import read_task
from bert_tf.utils.names import LAYERS, POOLINGS
from tests import tiny
from tests.sentence_folders import PLAIN, write
from tests.tasks.embedding.support import pairs, run

TEXTS = ["a good film", "music", "the story is dull , and cold ."]


def scores(folder, file="eval_results.txt"):
    return dict(line.split(" = ") for line in (folder / file).read_text().splitlines())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which `out` holds a trained model, and `before` the scores before training."""
    folder = tmp_path_factory.mktemp("embedder")
    tiny.write_tsv(folder / "train.tsv", pairs(48), "text_a\ttext_b")
    tiny.write_tsv(folder / "dev.tsv", pairs(30, 1), "text_a\ttext_b")
    start = bert_tf.load(tiny.checkpoint(folder / "tf1", initializer_range=0.3))
    bert_tf.save(start, folder / "model", "sentence_transformers")
    given = {"init_checkpoint": str(folder / "model"), "max_seq_length": 12, "eval_file": str(folder / "dev.tsv")}
    run(**given, output_dir=str(folder / "before"), do_eval=True)
    run(**given, output_dir=str(folder / "out"), do_train=True, do_eval=True, do_export=True, normalize=True,
        train_file=str(folder / "train.tsv"), train_batch_size=20, num_train_epochs=5.0, learning_rate=1e-3,
        pooling=["cls", "mean"], save_format=["sentence_transformers"])  # fmt: skip
    return folder


@pytest.mark.slow
def test_texts_find_each_other_better(trained):
    before, after = scores(trained / "before"), scores(trained / "out")
    assert after.keys() == {"eval_recall_at_1", "eval_recall_at_10", "eval_mrr", "global_step"}
    assert float(after["eval_mrr"]) > float(before["eval_mrr"]) + 0.05


def test_one_vector_wherever_it_is_asked(trained):
    expected = SentenceEncoder(str(trained / "out"))(TEXTS)
    assert expected.shape == (3, 64)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-5)
    converted = trained / "out" / "sentence_transformers"
    assert read_recipe(str(converted)) == PoolingConfig(poolings=("cls", "mean"), normalize=True, max_seq_length=12)
    np.testing.assert_allclose(SentenceEncoder(converted)(TEXTS), expected, atol=1e-6)
    loaded = tf.saved_model.load(str(trained / "out" / "export" / "1"))
    served = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    assert list(served) == ["embedding"]
    np.testing.assert_allclose(served["embedding"], expected, atol=1e-5)


def test_it_answers_and_is_scored_as_it_was_trained(trained, tmp_path):
    tiny.write_tsv(tmp_path / "scored.tsv", [(*pair, str(n % 2)) for n, pair in enumerate(pairs(9))],
                   "text_a\ttext_b\tlabel")  # fmt: skip
    asked = {"output_dir": str(trained / "out"), "predict_file": str(tmp_path / "scored.tsv"), "do_predict": True}
    run(**asked, do_eval=True, eval_file=str(tmp_path / "scored.tsv"), eval_by="spearman")
    found = scores(trained / "out", "eval_results_scored.txt")  # a file other than that of the training
    assert found.keys() == {"eval_spearman", "eval_pearson", "global_step"}
    lines = [json.loads(line) for line in (trained / "out" / "predictions.jsonl").read_text().splitlines()]
    vectors = SentenceEncoder(str(trained / "out"))([text for pair in pairs(9) for text in pair])
    assert [(line["text_a"], line["text_b"]) for line in lines] == pairs(9)
    np.testing.assert_allclose([line["cosine"] for line in lines], (vectors[::2] * vectors[1::2]).sum(1), atol=1e-5)
    with pytest.raises(ValueError, match=r"`pooling` must be what the model was trained with, \['cls', 'mean'\]"):
        run(**asked, pooling=["max"])


def test_it_is_kept_as_it_is(trained):
    config = bert_tf.EncoderConfig.load(trained / "out")
    kept = read_task(str(trained / "out"), config)
    again = EmbeddingTask(config, **kept.task.to_dict())
    assert again.to_dict() == kept.task.to_dict() and kept.max_seq_length == 12 and kept.text_inputs == ("text",)
    assert kept.task.recipe == PoolingConfig(poolings=("cls", "mean"), normalize=True)


@pytest.mark.parametrize("layers", LAYERS)
def test_what_is_not_read_is_not_trained(layers):
    task = EmbeddingTask(tiny.config(num_hidden_layers=4), layers)
    paths = [variable.path for variable in task.build_model().trainable_variables]
    depth = {"embeddings": 0, "second_to_last": 3}.get(layers, 4)
    assert {path.split("/")[2] for path in paths if "/layer_" in path} == {f"layer_{n}" for n in range(depth)}
    assert not any("pooler" in path for path in paths)


@pytest.mark.parametrize("pooling", [*POOLINGS, ("cls", "mean_max")])
def test_the_width_is_known_before(pooling):
    inputs, outputs = keras_inputs(), {"sequence_output": tf.ones([2, 3, 4]), "encoder_outputs": [tf.ones([2, 3, 4])]}
    layer = PooledFeatures(pooling=pooling)
    assert layer.compute_output_spec(outputs, inputs["input_mask"]).shape[1] == layer(outputs, tf.ones([2, 3])).shape[1]


def test_layers_that_the_format_cannot_say(trained):
    given = {"init_checkpoint": str(trained / "model"), "train_file": str(trained / "train.tsv"), "do_train": True}
    with pytest.raises(ValueError, match="must pool its last layer. Received layers=embeddings"):
        run(**given, output_dir=str(trained / "no"), layers="embeddings", save_format=["sentence_transformers"],
            train_batch_size=8, max_seq_length=12)  # fmt: skip
    assert not (trained / "no").exists()


def test_there_is_something_to_train(trained):
    with pytest.raises(ValueError, match="`freeze_layers=all` must come with a head to train"):
        run(init_checkpoint=str(trained / "model"), train_file=str(trained / "train.tsv"), do_train=True,
            output_dir=str(trained / "no"), max_seq_length=12, freeze_layers="all")  # fmt: skip


def test_folders_that_cannot_be_trained(trained, tmp_path):
    write(tmp_path, (*PLAIN, ("Dense", "2_Dense")), **{"2_Dense__config": {"out_features": 3}})
    for file in (trained / "model").iterdir():
        if file.is_file() and file.name != "modules.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="which maps its vectors by Dense modules; name another"):
        run(init_checkpoint=str(tmp_path), train_file=str(trained / "train.tsv"), do_train=True, max_seq_length=12,
            output_dir=str(tmp_path / "out"))  # fmt: skip
