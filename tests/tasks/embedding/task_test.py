"""Embedding, from pairs to a model with the same vectors everywhere."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.features import keras_inputs
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.models.pooling import PooledFeatures
from bert_tf.models.sentence_transformers_files import PoolingConfig, read_recipe
from bert_tf.tasks.base import TrainedTask
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.embedding.text_groups import TextGroups
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.names import LAYERS, POOLINGS
from tests import tiny
from tests.sentence_folders import PLAIN, write
from tests.tasks.embedding.support import described, pairs, run, unit_vectors
from tests.tasks.reranking.support import queries, write_jsonl
from tests.tasks.support import labeled_texts, options

PROMPTS = '{"query": "see it : ", "passage": "story "}'


def created(**given):
    return EmbeddingTask.create(described(), None, options(EmbeddingOptions, **given), None)


def ids_of(task, groups):
    lists = dataclasses.replace(TextGroups([], [], [], [], "file", []), ids=list(map(str, groups)))
    for query, positive, *negatives in groups:
        lists.queries.append(query)
        lists.positives.append(positive)
        lists.negatives.append(negatives)
    return task.encode_examples(WordPieceTokenizer(tiny.VOCAB), lists, 9, False).rows.features["input_ids"].tolist()


def test_each_text_is_encoded_with_its_prompt():
    task, plain = created(prompts=PROMPTS), EmbeddingTask(tiny.config())
    groups = [["good film", "a good film", "it"], ["music", "people and music to see"]]
    prompted = [[f"see it : {first}", *(f"story {text}" for text in others)] for first, *others in groups]
    assert ids_of(task, groups) == ids_of(plain, prompted) != ids_of(plain, groups)
    single = labeled_texts(("good film", None))
    for prompts, text in ((PROMPTS, "good film"), ("the ", "the good film")):
        of_run, tokenizer = created(prompts=prompts), WordPieceTokenizer(tiny.VOCAB)
        expected = plain.encode_examples(tokenizer, labeled_texts((text, None)), 9, False).rows.features["input_ids"]
        found = of_run.encode_examples(tokenizer, single, 9, False).rows.features["input_ids"]
        served, _ = of_run.preprocess(tokenizer, [tf.constant(["good film"])], 9)
        assert found.tolist() == expected.tolist() == served["input_ids"][0].numpy().tolist()


def test_prompts_are_kept_and_taken_from_the_start(tmp_path):
    task = created(prompts=PROMPTS)
    tiny.checkpoint(tmp_path)
    save_task(tmp_path, TrainedTask(task, ("text",), 16))
    assert read_task(str(tmp_path), tiny.config()).task.recipe == task.recipe
    assert [SentenceEncoder(str(tmp_path), prompt_name=name).prompt for name in ("query", "passage", None)] == [
        "see it : ", "story ", "",
    ]  # fmt: skip
    again = created(init_checkpoint=str(tmp_path))
    assert again.recipe == task.recipe
    assert created(init_checkpoint=str(tmp_path), prompts="").recipe == PoolingConfig()
    write(tmp_path, config_sentence_transformers={"prompts": {"query": "x "}, "truncate_dim": 8})
    assert created(init_checkpoint=str(tmp_path)).recipe == PoolingConfig(prompts={"query": "x "}, dim=8)
    kept = TrainedTask(task, ("text",), 16)
    same = EmbeddingTask.with_trained_defaults(options(EmbeddingOptions, prompts=PROMPTS), kept)
    assert EmbeddingTask.create(described(), None, same, kept).recipe == task.recipe
    with pytest.raises(ValueError, match="`prompts` must match the trained model's, {.*}; got ; omit it."):
        EmbeddingTask.with_trained_defaults(options(EmbeddingOptions, prompts=""), kept)


@pytest.mark.parametrize("prompts", ['{"query": 1}', '{"query": ', '{"text_a": "x"}'])
def test_what_is_no_prompt(prompts):
    with pytest.raises(ValueError, match="`prompts` must be one text, or a JSON object of texts named query or doc"):
        created(prompts=prompts)


def test_prompts_that_would_not_be_pooled(tmp_path):
    files = {"1_Pooling__config": {"include_prompt": False},
             "config_sentence_transformers": {"prompts": {"query": "x "}, "default_prompt_name": "query"}}  # fmt: skip
    start = write(tmp_path, **files)
    with pytest.raises(ValueError, match="`init_checkpoint` must pool the tokens of its prompts. .* does not"):
        created(init_checkpoint=start, do_train=True)
    assert not created(init_checkpoint=start, prompts="").recipe.prompts
    with pytest.raises(ValueError, match="`model` must pool the tokens of its prompts"):
        EmbeddingTask.from_pretrained(start, described())


def test_shorter_vectors_of_the_start_are_scored_and_served():
    """The loss is of all dimensions; metrics, predictions and served vectors have the first ones alone."""
    task, vectors = EmbeddingTask(tiny.config(), normalize=True, dim=8), unit_vectors(4, 2, 32)
    found = task.reduce_outputs(tf.constant(vectors), {}).numpy()
    expected = vectors[:, :, :8] / np.linalg.norm(vectors[:, :, :8], axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    model = task.build_model()
    assert model.output_shape[-1] == 32 and task.for_serving(model).output_shape == (None, 8)
    assert EmbeddingTask(tiny.config(), **task.to_dict()).recipe == task.recipe


TEXTS = ["a good film", "music", "the story is dull , and cold ."]


def scores(folder, file="eval_results.txt"):
    return dict(line.split(" = ") for line in (folder / file).read_text().splitlines())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which `out` holds a trained model."""
    folder = tmp_path_factory.mktemp("embedder")
    tiny.write_tsv(folder / "train.tsv", pairs(48), "text_a\ttext_b")
    tiny.write_tsv(folder / "dev.tsv", pairs(30, 1), "text_a\ttext_b")
    start = bert_tf.load(tiny.checkpoint(folder / "tf1", initializer_range=0.3))
    bert_tf.save(start, folder / "model", "sentence_transformers")
    given = {"init_checkpoint": str(folder / "model"), "max_seq_length": 12, "eval_file": str(folder / "dev.tsv")}
    run(**given, output_dir=str(folder / "out"), do_train=True, do_eval=True, do_export=True, normalize=True,
        train_file=str(folder / "train.tsv"), train_batch_size=20, num_train_epochs=5.0, learning_rate=1e-3,
        pooling=["cls", "mean"], matryoshka_dims=["64", "16"], save_format=["sentence_transformers"])  # fmt: skip
    return folder


@pytest.mark.slow
def test_texts_find_each_other_better(trained):
    run(init_checkpoint=str(trained / "model"), max_seq_length=12, eval_file=str(trained / "dev.tsv"), do_eval=True,
        output_dir=str(trained / "before"))  # fmt: skip
    before, after = scores(trained / "before"), scores(trained / "out")
    names = ("eval_recall_at_1", "eval_recall_at_10", "eval_mrr")
    assert after.keys() == {*names, *(f"{name}_dim_16" for name in names), "global_step"}
    assert float(after["eval_mrr"]) > float(before["eval_mrr"]) + 0.05


@pytest.mark.slow
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


@pytest.mark.slow
def test_it_answers_and_is_scored_as_it_was_trained(trained, tmp_path):
    tiny.write_tsv(tmp_path / "scored.tsv", [(*pair, str(n % 2)) for n, pair in enumerate(pairs(9))],
                   "text_a\ttext_b\tlabel")  # fmt: skip
    asked = {"output_dir": str(trained / "out"), "predict_file": str(tmp_path / "scored.tsv"), "do_predict": True}
    run(**asked, do_eval=True, eval_file=str(tmp_path / "scored.tsv"), eval_metric="spearman")
    found = scores(trained / "out", "eval_results_scored.txt")  # a file other than that of the training
    names = ("eval_spearman", "eval_pearson")
    assert found.keys() == {*names, *(f"{name}_dim_16" for name in names), "global_step"}
    lines = [json.loads(line) for line in (trained / "out" / "predictions.jsonl").read_text().splitlines()]
    vectors = SentenceEncoder(str(trained / "out"))([text for pair in pairs(9) for text in pair])
    assert [(line["text_a"], line["text_b"]) for line in lines] == pairs(9)
    np.testing.assert_allclose([line["cosine"] for line in lines], (vectors[::2] * vectors[1::2]).sum(1), atol=1e-5)
    for name, value in (("loss", "cosine"), ("temperature", 9.0)):
        with pytest.raises(ValueError, match=f"`{name}` must match the trained model's, .*got {value}; omit it"):
            run(**asked | {"predict_file": None, "do_predict": False}, do_eval=True, eval_file=asked["predict_file"],
                **{name: value})  # fmt: skip
    with pytest.raises(ValueError, match=r"`pooling` must match the trained model's, \['cls', 'mean'\]"):
        run(**asked, pooling=["max"])
    with pytest.raises(ValueError, match=r"`matryoshka_dims` must match the trained model's, \['64', '16'\]"):
        run(**asked, matryoshka_dims=["8"])


@pytest.mark.slow
def test_it_is_kept_as_it_is(trained):
    config = bert_tf.EncoderConfig.load(trained / "out")
    kept = read_task(str(trained / "out"), config)
    assert kept.max_seq_length == 12 and kept.text_inputs == ("text",)
    assert kept.task.recipe == PoolingConfig(poolings=("cls", "mean"), normalize=True)
    assert kept.task.matryoshka_dims == (64, 16)


def _our_warnings(caplog):
    """The warnings of bert_tf, not those of TensorFlow; other tests of the process decide whether more is logged."""
    return [record for record in caplog.records if record.name == "absl" and record.levelname == "WARNING"]


@pytest.mark.slow
def test_shorter_vectors(trained, caplog):
    whole = SentenceEncoder(str(trained / "out"))(TEXTS)
    for dim in (16, 5):
        encoder = SentenceEncoder(str(trained / "out"), dim=dim)
        expected = whole[:, :dim] / np.linalg.norm(whole[:, :dim], axis=1, keepdims=True)
        assert encoder.width == dim
        np.testing.assert_allclose(encoder(TEXTS), expected, atol=1e-6)
    [record] = _our_warnings(caplog)
    assert "was not trained for embeddings of 5 dimensions (matryoshka_dims: 64,16)" in record.getMessage()
    with pytest.raises(ValueError, match="`dim` must be at most 64, the number of dimensions of the model"):
        SentenceEncoder(str(trained / "out"), dim=65)
    with pytest.raises(ValueError, match="`dim` must be 1 or more; got 0"):
        SentenceEncoder(str(trained / "out"), dim=0)


def test_only_a_width_that_was_not_trained_gets_a_warning(tmp_path, caplog):
    tiny.checkpoint(tmp_path)
    tokenizer, config = WordPieceTokenizer(tiny.VOCAB), tiny.config()
    for dims, warnings in (((), 0), ((32, 8), 0), ((8,), 1)):
        save_task(tmp_path, TrainedTask(EmbeddingTask(config, matryoshka_dims=dims), ("text",), 16))
        caplog.clear()
        SentenceEncoder(str(tmp_path), dim=32)
        assert len(_our_warnings(caplog)) == warnings
        caplog.clear()
        given = options(EmbeddingOptions, matryoshka_dims=list(map(str, dims)), do_train=True)
        EmbeddingTask.create(types.SimpleNamespace(config=config, tokenizer=tokenizer), None, given, None)
        found = [each.getMessage()[:26] for each in _our_warnings(caplog)]
        assert found == ["`matryoshka_dims` lacks 32"] * warnings


@pytest.mark.slow
def test_it_learns_from_lists_of_any_length(trained, tmp_path):
    """Positives have a good word, negatives a bad one: queries of training come nearer to their positives."""
    for name, seed in (("train", 0), ("dev", 1)):
        write_jsonl(tmp_path / f"{name}.jsonl", queries(24, seed))
    given = {"init_checkpoint": str(trained / "model"), "max_seq_length": 12, "do_eval": True,
             "eval_file": str(tmp_path / "dev.jsonl")}  # fmt: skip
    run(**given, output_dir=str(tmp_path / "before"))
    run(**given, output_dir=str(tmp_path / "out"), do_train=True, train_file=str(tmp_path / "train.jsonl"),
        train_batch_size=8, num_train_epochs=6.0, learning_rate=1e-3)  # fmt: skip
    run(**given, output_dir=str(tmp_path / "kept"), do_train=True, train_file=str(tmp_path / "train.jsonl"),
        train_batch_size=8, num_train_epochs=2.0, learning_rate=1e-3, eval_metric="ranking",
        metric_for_best_model="ndcg_at_10", save_checkpoints_steps=4)  # fmt: skip
    assert scores(tmp_path / "kept").keys() == {"eval_mrr_at_10", "eval_ndcg_at_10", "eval_map", "global_step"}
    before, after = scores(tmp_path / "before"), scores(tmp_path / "out")
    assert float(after["eval_mrr"]) > float(before["eval_mrr"]) + 0.02


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


@pytest.mark.slow
def test_layers_that_the_format_cannot_say(trained):
    given = {"init_checkpoint": str(trained / "model"), "train_file": str(trained / "train.tsv"), "do_train": True}
    with pytest.raises(ValueError, match="must pool its last layer; got layers=embeddings"):
        run(**given, output_dir=str(trained / "no"), layers="embeddings", save_format=["sentence_transformers"],
            train_batch_size=8, max_seq_length=12)  # fmt: skip
    assert not (trained / "no").exists()


@pytest.mark.slow
def test_there_is_something_to_train(trained):
    with pytest.raises(ValueError, match="`freeze_layers=all` requires a head to train"):
        run(init_checkpoint=str(trained / "model"), train_file=str(trained / "train.tsv"), do_train=True,
            output_dir=str(trained / "no"), max_seq_length=12, freeze_layers="all")  # fmt: skip


@pytest.mark.slow
def test_folders_that_cannot_be_trained(trained, tmp_path):
    write(tmp_path, (*PLAIN, ("Dense", "2_Dense")), **{"2_Dense__config": {"out_features": 3}})
    for file in (trained / "model").iterdir():
        if file.is_file() and file.name != "modules.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="maps its embeddings with Dense modules; pass its encoder directory"):
        run(init_checkpoint=str(tmp_path), train_file=str(trained / "train.tsv"), do_train=True, max_seq_length=12,
            output_dir=str(tmp_path / "out"))  # fmt: skip
