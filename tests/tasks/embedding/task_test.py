"""Embedding: each loss by hand, the files of a run, and from pairs to a model with the same vectors everywhere."""

import dataclasses
import json
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.dataset import EncodedDataset
from bert_tf.data.example_checks import check_samples
from bert_tf.data.features import keras_inputs
from bert_tf.data.windowed import Windowed
from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.evaluation.ranking import ranking_metrics
from bert_tf.inference.sentence_encoder import SentenceEncoder
from bert_tf.models.pooling import PooledFeatures
from bert_tf.models.sentence_transformers_files import PoolingConfig, read_recipe
from bert_tf.tasks.base import SplitPredictions, TrainedTask
from bert_tf.tasks.distilled_task import DistilledTask
from bert_tf.tasks.embedding.data import TextGroups, encode_text_groups
from bert_tf.tasks.embedding.losses import LOSS_FUNCTIONS, LossParameters
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.registry import read_task, save_task
from bert_tf.tokenization.wordpiece import Tokenizer
from bert_tf.training.scoring import BatchSettings
from bert_tf.utils.names import LAYERS, POOLINGS
from tests import tiny
from tests.sentence_folders import PLAIN, write
from tests.tasks.embedding.support import pairs, run
from tests.tasks.reranking.support import queries, write_jsonl
from tests.tasks.support import labeled_texts, options

# === Losses ===


NUMBERS = LossParameters(temperature=0.1, margin=0.4)


def unit_vectors(*shape):
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def batch(vectors, scores=None, **changes):
    """A batch whose texts all differ."""
    count, texts = vectors.shape[:2]
    values = {"input_ids": np.arange(count * texts * 2).reshape(count, texts, 2), "is_real_example": np.ones(count)}
    values["input_mask"] = np.ones_like(values["input_ids"])
    values |= {"label_values": np.ones(count) if scores is None else scores} | changes
    return {name: tf.constant(v, tf.int32 if name.startswith("input_") else tf.float32) for name, v in values.items()}


def computed(name, vectors, batch):
    return LOSS_FUNCTIONS[name].compute(tf.constant(vectors), batch, NUMBERS).numpy()


def cross_entropy(query, candidates, own):
    logits = candidates @ query / NUMBERS.temperature
    return np.log(np.exp(logits).sum()) - logits[own]


@pytest.mark.parametrize("texts", [2, 3])
def test_the_own_text_among_those_of_the_batch(texts):
    vectors = unit_vectors(4, texts, 5)
    candidates = np.concatenate([vectors[:, n] for n in range(1, texts)])
    expected = [cross_entropy(vectors[n, 0], candidates, n) for n in range(4)]
    np.testing.assert_allclose(computed("in_batch_negatives", vectors, batch(vectors)), expected, rtol=1e-5, atol=1e-5)


def test_what_fills_a_batch_up_is_no_negative():
    vectors = unit_vectors(5, 2, 5)
    real = batch(vectors, is_real_example=[1, 1, 0, 1, 0])
    expected = [cross_entropy(vectors[n, 0], vectors[[0, 1, 3], 1], place) for place, n in enumerate((0, 1, 3))]
    np.testing.assert_allclose(computed("in_batch_negatives", vectors, real)[[0, 1, 3]], expected, rtol=1e-5, atol=1e-5)


def test_the_same_text_is_no_negative_of_itself():
    vectors = unit_vectors(3, 2, 5)
    ids = np.arange(12).reshape(3, 2, 2)
    ids[2, 1] = ids[0, 1]
    found = computed("in_batch_negatives", vectors, batch(vectors, input_ids=ids))
    expected = [cross_entropy(vectors[n, 0], vectors[of, 1], own) for n, of, own in
                ((0, [0, 1], 0), (1, [0, 1, 2], 1), (2, [1, 2], 1))]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_text_that_an_example_lacks_is_no_negative():
    vectors, mask = unit_vectors(3, 4, 5), np.ones([3, 4, 2])
    mask[0, 2:] = mask[2, 3] = 0
    found = computed("in_batch_negatives", vectors, batch(vectors, input_mask=mask))
    candidates = np.concatenate([vectors[:, 1], vectors[1:, 2], vectors[1:2, 3]])
    np.testing.assert_allclose(found, [cross_entropy(vectors[n, 0], candidates, n) for n in range(3)], rtol=1e-5)


def test_examples_of_one_query_share_their_negatives():
    """The matches of a query are not candidates for each other, and its negatives count once, for all queries."""
    vectors, ids = unit_vectors(4, 4, 5), np.arange(32).reshape(4, 4, 2)
    vectors[2, [0, 2, 3]], ids[2, [0, 2, 3]] = vectors[0, [0, 2, 3]], ids[0, [0, 2, 3]]  # one query, two matches
    found = computed("in_batch_negatives", vectors, batch(vectors, input_ids=ids))
    negatives = vectors[[0, 1, 3, 0, 1, 3], [2, 2, 2, 3, 3, 3]]
    of_others = {0: [0, 1, 3], 2: [2, 1, 3], 1: [1, 0, 2, 3], 3: [3, 0, 1, 2]}
    expected = [cross_entropy(vectors[n, 0], [*vectors[of_others[n], 1], *negatives], 0) for n in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    again = np.concatenate([vectors, vectors[:1]]), np.concatenate([ids, ids[:1]])  # the last one fills up
    fillers = batch(again[0], input_ids=again[1][::-1], is_real_example=[0, 1, 1, 1, 1])
    reverse = computed("in_batch_negatives", again[0][::-1].copy(), fillers)
    np.testing.assert_allclose(reverse[:0:-1], expected, rtol=1e-5)


def test_losses_of_each_example_alone():
    vectors, scores = unit_vectors(4, 3, 5), np.array([1.0, 0, 1, 0])
    near, far = ((vectors[:, 0] * vectors[:, n]).sum(-1) for n in (1, 2))
    distance = 1 - near
    expected = {
        "cosine": (near - scores) ** 2,
        "contrastive": np.where(scores > 0, distance**2, np.maximum(0, 0.4 - distance) ** 2) / 2,
        "triplet": np.maximum(0, far - near + 0.4),
        "margin_mse": ((near - far) / 0.1 - scores) ** 2,
    }
    for name, values in expected.items():
        np.testing.assert_allclose(computed(name, vectors, batch(vectors, scores)), values, rtol=1e-4, atol=1e-6)
    assert set(LOSS_FUNCTIONS) == {"in_batch_negatives", *expected}


@pytest.mark.parametrize("loss", LOSS_FUNCTIONS)
def test_the_loss_of_shorter_vectors_is_the_mean_over_them(loss):
    vectors = np.random.default_rng(1).normal(size=(4, 3, 32)).astype(np.float32)
    marked, numbers = batch(vectors, [1.0, 0, 1, 0]), {"examples": tf.constant(4.0)}
    task = EmbeddingTask(tiny.config(), loss=loss, matryoshka_dims=(32, 8, 3))
    of_each = [
        LOSS_FUNCTIONS[loss].compute(tf.math.l2_normalize(vectors[..., :dim], -1), marked, LossParameters(0.05, 0.5))
        for dim in (32, 8, 3)
    ]
    found = task.loss(tf.constant(vectors), marked, numbers)
    assert float(found) == pytest.approx(float(tf.reduce_mean(of_each)), rel=1e-5)


def test_a_teacher_does_not_change_what_the_loss_depends_on():
    assert DistilledTask(EmbeddingTask(tiny.config()), None).loss_of_batch
    assert not DistilledTask(EmbeddingTask(tiny.config(), loss="cosine"), None).loss_of_batch


def test_metrics_of_shorter_vectors():
    vectors, names = unit_vectors(20, 2, 32), ["recall_at_1", "recall_at_10", "mrr"]
    task = EmbeddingTask(tiny.config(), matryoshka_dims=(32, 8, 3))
    sequences = EncodedDataset({"input_ids": np.arange(40)}, np.arange(41), {})
    encoded = Windowed(sequences, np.arange(0, 41, 2), {})
    found = task.metrics(vectors, encoded)
    assert list(found) == list(task.metric_names) == [*names, *(f"{n}_dim_{d}" for d in (8, 3) for n in names)]
    for dim in (8, 3):
        alone = EmbeddingTask(tiny.config()).metrics(vectors[..., :dim], encoded)
        assert [found[f"{name}_dim_{dim}"] for name in names] == list(alone.values())
    assert all(map(higher_is_better, found))


@pytest.mark.parametrize("dims", [(33,), (8, 0), (8, 8)])
def test_dimensions_that_there_are_not(dims):
    with pytest.raises(ValueError, match="`matryoshka_dims` must be different numbers from 1 to 32, the number of dim"):
        EmbeddingTask(tiny.config(), matryoshka_dims=dims)


# === Files ===


ROWS = [("good film", "a good film", "5", "bad film"), ("music", "people", "0", "story")]


@pytest.fixture
def path(tmp_path):
    return str(tiny.write_tsv(tmp_path / "pairs.tsv", ROWS, "text_a\ttext_b\tlabel\ttext_c"))


def read(kinds, **given):
    return EmbeddingTask.read_data(options(EmbeddingOptions, **given), kinds, None).examples


def test_what_a_loss_reads(path):
    files = {"train_file": path, "eval_file": path, "predict_file": path}
    pairs = read(["train", "dev", "test"], **files)
    assert all(each.labels is None and each.text_b == ["a good film", "people"] for each in pairs.values())
    scored = read(["train", "dev", "test"], **files, loss="cosine", highest_score=5.0)
    assert [each.labels for each in scored.values()] == [[1, 0], [1, 0], None]
    by_score = read(["train", "dev"], **files, eval_by="spearman", highest_score=10.0)
    assert by_score["train"].labels is None and by_score["dev"].labels == [0.5, 0]
    three = read(["train"], **files, loss="triplet", text_column=["text_a", "text_b", "text_c"])["train"]
    assert three.text_c == ["bad film", "story"] and three.lines == [2, 3]


def test_sts_b(tmp_path):
    for name in ("train", "dev"):
        tiny.write_tsv(tmp_path / f"{name}.tsv", [("0", "a", "b", "2.5")], "index\tsentence1\tsentence2\tscore")
    task = {"task_name": "sts-b", "data_dir": str(tmp_path)}
    assert read(["train", "dev"], **task, loss="cosine")["dev"].labels == [0.5]
    with pytest.raises(ValueError, match="Training on `task_name=sts-b`, whose pairs .* requires `loss=cosine`"):
        read(["train", "dev"], **task, eval_by="spearman")
    with pytest.raises(ValueError, match="`task_name` must be a GLUE task with pair scores. Received: rte"):
        read(["dev"], **task | {"task_name": "rte"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "cosine"}, r"pairs.tsv:2: the score must be a number from -1 to 1. Received: '5' in column 'label'"),
        ({"loss": "cosine", "label_column": "score"}, "pairs.tsv.*'score'.*check `label_column`, which holds"),
        ({"loss": "contrastive", "highest_score": 10.0}, "pairs.tsv:2: the score must be 0 or `highest_score` for "
         "`loss=contrastive`. Received: 0.5 of it"),
        ({"loss": "triplet"}, "must name 3 columns for `loss=triplet`. Received 2: text_a,text_b"),
        ({"loss": "cosine", "text_column": ["a", "b", "c"]}, "must name 2 columns for `loss=cosine`"),
        ({"loss": "triplet", "temperature": 0.1},
         "`temperature` requires `loss=in_batch_negatives` or `loss=margin_mse`. Received `temperature=0.1` with "
         "`loss=triplet`, which does not read it"),
        ({"margin": 0.2}, "`margin` requires `loss=contrastive` or `loss=triplet`. Received `margin=0.2` with "
         "`loss=in_batch_negatives`"),
        ({"label_column": "label"}, r"`label_column` requires a loss that reads scores \(cosine, contrastive, "
         r"margin_mse\), or `eval_by=spearman`. Received `loss=in_batch_negatives`, which does not read"),
        ({"loss": "triplet", "highest_score": 5.0}, r"`highest_score` requires .* \(cosine, contrastive\), or"),
        ({"text_column": ["text_a"]}, "must name 2 or 3 columns for `loss=in_batch_negatives`. Received 1"),
        ({"data_dir": "x"}, "Received `data_dir` alone"),
        ({"train_file": None}, "`do_train` requires texts. Pass `train_file`"),
    ],
)  # fmt: skip
def test_what_is_refused(given, message, path):
    with pytest.raises(ValueError, match=message):
        read(["train"], **{"train_file": path} | given)


def test_an_empty_file(tmp_path):
    (tmp_path / "none.tsv").write_text("text_a\ttext_b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="none.tsv contains no examples"):
        read(["train"], train_file=str(tmp_path / "none.tsv"))


LISTS = [("good film", ["a good film", "fine"], ["bad film", "dull", "it"]), ("music", ["people"], [])]


def test_queries_with_lists(tmp_path):
    path = str(write_jsonl(tmp_path / "lists.jsonl", LISTS))
    found = read(["train", "dev"], train_file=path, eval_file=path)
    for each in found.values():
        assert each.groups == [["good film", "a good film", *LISTS[0][2]], ["good film", "fine", *LISTS[0][2]],
                               ["music", "people"]]  # fmt: skip
        assert (each.lines, each.ids, each.where(2)) == ([1, 1, 2], ["0", "1", "2"], f"{path}:2")
    triplets = read(["train"], train_file=path, loss="triplet")["train"]
    assert triplets.groups[:2] == [["good film", "a good film", "bad film"], ["good film", "a good film", "dull"]]
    assert len(triplets) == 6
    scored = write_jsonl(tmp_path / "b.jsonl", [("a", ["b", "c"], [0, 2])], ("query", "documents", "relevances"))
    assert read(["train"], train_file=str(scored))["train"].groups == [["a", "c", "b"]]
    as_table = read(["train"], train_file=path, text_column=["query", "query"])["train"]
    assert as_table.text_b == ["good film", "music"]  # columns that are named are read as they are named


def test_lists_without_negatives_are_no_mistake(tmp_path, path):
    given = {"train_file": str(write_jsonl(tmp_path / "lists.jsonl", LISTS)), "eval_file": path}
    data, given = read(["train", "dev"], **given), options(EmbeddingOptions, **given)
    samples = {kind: EmbeddingTask.checked_examples(each, None, given) for kind, each in data.items()}
    assert not check_samples(samples)
    assert samples["dev"].table and not samples["train"].table


def test_retrieval_from_lists():
    """Of the first query's texts, the other match does not count for a match, and each negative once."""
    groups = [["good film", "a good film", "it", "dull"], ["good film", "fine", "it", "dull"], ["music", "people"]]
    encoded = encode_text_groups(Tokenizer(tiny.VOCAB), groups, 8, {}, "file")
    cosine = {"a good film": 0.9, "fine": 0.1, "it": 0.2, "dull": 0.3, "people": 0.0}
    vectors = np.zeros([3, 4, 2])
    for n, group in enumerate(groups):
        vectors[n, 0] = 1, 0
        for place, text in enumerate(group[1:], 1):
            vectors[n, place] = cosine[text], np.sqrt(1 - cosine[text] ** 2)
    found = EmbeddingTask(tiny.config()).metrics(vectors, encoded)
    assert found["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 5) / 3)


def test_margins(tmp_path, path):
    """From a column, any number; from lists, the difference of the positive's and the negative's scores."""
    rows = [("good film", ["a good film"], ["bad film", "dull"], [7.5, -2, 1])]
    lists = write_jsonl(tmp_path / "lists.jsonl", rows, ("query", "positives", "negatives", "scores"))
    found = read(["train", "dev"], train_file=str(lists), eval_file=str(lists), loss="margin_mse")
    assert found["train"].labels == [9.5, 6.5] and found["dev"].labels is None
    assert found["train"].groups == [["good film", "a good film", each] for each in ("bad film", "dull")]
    columns = {"text_column": ["text_a", "text_b", "text_c"], "train_file": path, "eval_file": path}
    table = read(["train", "dev"], **columns, loss="margin_mse")
    assert table["train"].labels == [5, 0] and table["dev"].labels is None
    by_score = read(["train", "dev"], **columns, loss="margin_mse", eval_by="spearman", highest_score=5.0)
    assert by_score["train"].labels == [5, 0] and by_score["dev"].labels == [1, 0]
    with pytest.raises(ValueError, match="`highest_score` cannot be combined with `loss=margin_mse`"):
        read(["train"], **columns, loss="margin_mse", highest_score=5.0)
    with pytest.raises(ValueError, match="`label_column` requires a table. Received queries with lists .*lists.jsonl"):
        read(["train"], train_file=str(lists), loss="margin_mse", label_column="label")
    none = write_jsonl(tmp_path / "none.jsonl", LISTS)
    with pytest.raises(ValueError, match="none.jsonl.*missing column 'scores'.*; create the file with `bert-tf mine_"):
        read(["train"], train_file=str(none), loss="margin_mse")
    short = write_jsonl(tmp_path / "short.jsonl", [("a", ["b"], ["c"], [1.0])],
                        ("query", "positives", "negatives", "scores"))  # fmt: skip
    with pytest.raises(ValueError, match=r"short.jsonl:1: 'scores' must be a list of 2 numbers, .* Received: \[1.0\]"):
        read(["train"], train_file=str(short), loss="margin_mse")


def test_a_model_learns_a_rerankers_margins():
    """With the default temperature, the differences of its cosines become the margins times the temperature."""
    tf.keras.utils.set_random_seed(0)
    task = EmbeddingTask(tiny.config(initializer_range=0.3), loss="margin_mse", loss_temperature=0.05)
    texts = ["a good film", "it", "the story", "see"], ["great", "music", "people", "is"], ["dull", "bad", "fine", "a"]
    queries, positives, negatives = texts
    groups = TextGroups(list("0123"), queries, positives, [[text] for text in negatives], "file", [1, 2, 3, 4],
                        [14.0, 6.0, -8.0, 10.0])  # fmt: skip
    encoded = task.encode_examples(Tokenizer(tiny.VOCAB), groups, 8, True)
    [batch] = BatchSettings(4).scoring(encoded, 4).batches()
    model, optimizer, errors = task.build_model(), tf.keras.optimizers.Adam(0.01), []
    for _ in range(15):
        with tf.GradientTape() as tape:
            losses, _ = task.example_losses(model({name: batch[name] for name in task.features}), batch)
            loss = tf.reduce_mean(losses)
        errors.append(float(loss) ** 0.5)
        gradients = zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        optimizer.apply_gradients([pair for pair in gradients if pair[0] is not None])
    assert EmbeddingOptions().temperature == 0.05 and errors[-1] < 0.3 * errors[0]
    vectors = tf.math.l2_normalize(model({name: batch[name] for name in task.features}), -1).numpy()
    differences = np.einsum("nd,nd->n", vectors[:, 0], vectors[:, 1] - vectors[:, 2])
    np.testing.assert_allclose(differences, batch["label_values"] * 0.05, atol=0.15)


@pytest.mark.parametrize(("scores", "message"), [
    ([0.9, 0.1, 0.05], "lists.jsonl: 99% of the differences .* are at most 0.8.*`temperature=0.05`, cosines are "
     "trained to differ by up to 0.0.*, which hardly separates the texts. If the scores are probabilities, use "
     "logits. If the reranker hardly .*. Otherwise, pass `temperature=1`."),
    ([90.0, 10, 1], "are at most 88.*, but two cosines differ by at most 2. Pass `temperature=0.01`."),
    ([1, 1, 1], "do not distill it. Otherwise, pass other scores."),
    ([9.0, 1, -4], None),
])  # fmt: skip
def test_margins_that_do_not_fit_the_temperature_are_reported(scores, message, tmp_path, caplog):
    rows = [("good film", ["a good film"], ["bad film", "dull"], scores)]
    lists = write_jsonl(tmp_path / "lists.jsonl", rows, ("query", "positives", "negatives", "scores"))
    read(["train"], train_file=str(lists), loss="margin_mse")
    assert re.search(message, caplog.text) if message else not caplog.text


@pytest.mark.parametrize("loss", ["triplet", "margin_mse"])
def test_what_has_another_number_of_texts_or_other_labels_has_no_loss(loss, tmp_path):
    """A model of triplets can be scored on pairs and by scores."""
    task, tokenizer = EmbeddingTask(tiny.config(), loss=loss), Tokenizer(tiny.VOCAB)
    pairs_alone = tiny.write_tsv(tmp_path / "pairs.tsv", ROWS, "text_a\ttext_b\tlabel\ttext_c")
    encoded = task.encode_examples(tokenizer, read(["dev"], eval_file=str(pairs_alone))["dev"], 8, True)
    assert not encoded.targets
    by_score = EmbeddingTask(tiny.config(), loss=loss, eval_by="spearman")
    assert by_score.example_losses(tf.ones([2, 2, 4]), {"label_values": tf.ones(2)}) is None


@pytest.mark.parametrize(("given", "message"), [
    ({"loss": "cosine"}, "lists.jsonl: `loss=cosine` requires pairs with scores. Received queries with lists"),
    ({"drop_empty": True}, "`drop_empty` requires a table. Received queries with lists of texts: .*lists.jsonl"),
])  # fmt: skip
def test_what_lists_cannot_do(given, message, tmp_path):
    path = str(write_jsonl(tmp_path / "lists.jsonl", LISTS))
    with pytest.raises(ValueError, match=message):
        read(["train"], train_file=path, **given)
    none = str(write_jsonl(tmp_path / "none.jsonl", LISTS[1:]))
    with pytest.raises(ValueError, match="none.jsonl: `loss=triplet` requires negatives. No query has any"):
        read(["train"], train_file=none, loss="triplet")


RANKINGS = [("a", ["film", "bad", "good"], [0, 1, 2]), ("b", ["music", "people"], [1, 0])]
RANKED_VECTORS = np.zeros([2, 4, 4], np.float32)
RANKED_VECTORS[0, :, :2] = [(1, 0), (0.9, 0.1), (0.1, 0.9), (0.5, 0.5)]  # film, good, bad
RANKED_VECTORS[1, :3, :2] = [(0, 3), (0.1, 0.9), (0.9, 0.1)]


def test_the_order_of_documents_is_scored_as_that_of_a_reranker(tmp_path):
    path = write_jsonl(tmp_path / "lists.jsonl", RANKINGS, ("query", "documents", "relevances"))
    given = options(EmbeddingOptions, eval_file=str(path), train_file=str(path), eval_by="ranking")
    data = EmbeddingTask.read_data(given, ["train", "dev"], None).examples
    assert [len(each) for each in data.values()] == [3, 2]  # a training example per relevant document
    assert not check_samples({kind: EmbeddingTask.checked_examples(each, None, given) for kind, each in data.items()})
    task = EmbeddingTask.create(described(), None, given, None)
    encoded = task.encode_examples(Tokenizer(tiny.VOCAB), data["dev"], 8, True)
    assert encoded.row_counts.tolist() == [4, 3] and not encoded.targets
    found = task.metrics(RANKED_VECTORS, encoded)
    assert found == ranking_metrics([[0, 2, 1], [1, 0]]) and tuple(found) == task.metric_names
    assert task.example_losses(tf.constant(RANKED_VECTORS), {}) is None
    report = task.error_report(SplitPredictions("dev", data["dev"], encoded, RANKED_VECTORS, None))
    assert report.ranks.tolist() == [2, 1]
    short = EmbeddingTask(tiny.config(), eval_by="ranking", matryoshka_dims=(32, 1))
    assert short.metrics(RANKED_VECTORS, encoded).keys() == set(short.metric_names)
    assert higher_is_better("ndcg_at_10_dim_1")


def test_a_run_is_ranked_with_its_qrels(tmp_path):
    files = {"eval_file": ("a.run", "q d1 1\nq d2 2\n"), "qrels_file": ("qrels", "q 0 d2 1\nq 0 d3 1\n"),
             "queries_file": ("queries.tsv", "q\tgood\n"),
             "documents_file": ("documents.tsv", "d1\tfilm\nd2\tmusic\nd3\tpeople\n")}  # fmt: skip
    for name, text in files.values():
        (tmp_path / name).write_text(text, encoding="utf-8")
    given = {flag: str(tmp_path / name) for flag, (name, _) in files.items()} | {"eval_by": "ranking"}
    [examples] = read(["dev"], **given).values()
    assert (examples.documents, examples.relevances, examples.judged) == ([["film", "music"]], [[0, 1]], [[1, 1]])
    path = str(write_jsonl(tmp_path / "lists.jsonl", RANKINGS, ("query", "documents", "relevances")))
    with pytest.raises(ValueError, match=r"`queries_file` requires a run \(.run or .trec\) among the data files"):
        read(["dev"], **given | {"eval_file": path})
    with pytest.raises(ValueError, match="`eval_by=ranking` requires queries with documents. Received `task_name=sts"):
        read(["dev"], task_name="sts-b", data_dir="x", eval_by="ranking")


# === Prompts ===


PROMPTS = '{"query": "see it : ", "passage": "story "}'


def described(config=None):
    return types.SimpleNamespace(config=config or tiny.config(), tokenizer=Tokenizer(tiny.VOCAB))


def created(**given):
    return EmbeddingTask.create(described(), None, options(EmbeddingOptions, **given), None)


def ids_of(task, groups):
    lists = dataclasses.replace(TextGroups([], [], [], [], "file", []), ids=list(map(str, groups)))
    for query, positive, *negatives in groups:
        lists.queries.append(query)
        lists.positives.append(positive)
        lists.negatives.append(negatives)
    return task.encode_examples(Tokenizer(tiny.VOCAB), lists, 9, False).rows.features["input_ids"].tolist()


def test_each_text_is_encoded_with_its_prompt():
    task, plain = created(prompts=PROMPTS), EmbeddingTask(tiny.config())
    groups = [["good film", "a good film", "it"], ["music", "people and music to see"]]
    prompted = [[f"see it : {first}", *(f"story {text}" for text in others)] for first, *others in groups]
    assert ids_of(task, groups) == ids_of(plain, prompted) != ids_of(plain, groups)
    single = labeled_texts(("good film", None))
    for prompts, text in ((PROMPTS, "good film"), ("the ", "the good film")):
        of_run, tokenizer = created(prompts=prompts), Tokenizer(tiny.VOCAB)
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
    with pytest.raises(ValueError, match="`prompts` must match the trained model's, {.*}. Received: ; omit it."):
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


# === Task ===


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


def test_it_answers_and_is_scored_as_it_was_trained(trained, tmp_path):
    tiny.write_tsv(tmp_path / "scored.tsv", [(*pair, str(n % 2)) for n, pair in enumerate(pairs(9))],
                   "text_a\ttext_b\tlabel")  # fmt: skip
    asked = {"output_dir": str(trained / "out"), "predict_file": str(tmp_path / "scored.tsv"), "do_predict": True}
    run(**asked, do_eval=True, eval_file=str(tmp_path / "scored.tsv"), eval_by="spearman")
    found = scores(trained / "out", "eval_results_scored.txt")  # a file other than that of the training
    names = ("eval_spearman", "eval_pearson")
    assert found.keys() == {*names, *(f"{name}_dim_16" for name in names), "global_step"}
    lines = [json.loads(line) for line in (trained / "out" / "predictions.jsonl").read_text().splitlines()]
    vectors = SentenceEncoder(str(trained / "out"))([text for pair in pairs(9) for text in pair])
    assert [(line["text_a"], line["text_b"]) for line in lines] == pairs(9)
    np.testing.assert_allclose([line["cosine"] for line in lines], (vectors[::2] * vectors[1::2]).sum(1), atol=1e-5)
    for name, value in (("loss", "cosine"), ("temperature", 9.0)):
        with pytest.raises(ValueError, match=f"`{name}` must match the trained model's, .*Received: {value}; omit it"):
            run(**asked | {"predict_file": None, "do_predict": False}, do_eval=True, eval_file=asked["predict_file"],
                **{name: value})  # fmt: skip
    with pytest.raises(ValueError, match=r"`pooling` must match the trained model's, \['cls', 'mean'\]"):
        run(**asked, pooling=["max"])
    with pytest.raises(ValueError, match=r"`matryoshka_dims` must match the trained model's, \['64', '16'\]"):
        run(**asked, matryoshka_dims=["8"])


def test_it_is_kept_as_it_is(trained):
    config = bert_tf.EncoderConfig.load(trained / "out")
    kept = read_task(str(trained / "out"), config)
    assert kept.max_seq_length == 12 and kept.text_inputs == ("text",)
    assert kept.task.recipe == PoolingConfig(poolings=("cls", "mean"), normalize=True)
    assert kept.task.matryoshka_dims == (64, 16)


def _our_warnings(caplog):
    """The warnings of bert_tf, not those of TensorFlow; other tests of the process decide whether more is logged."""
    return [record for record in caplog.records if record.name == "absl" and record.levelname == "WARNING"]


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
    with pytest.raises(ValueError, match="`dim` must be 1 or more. Received: 0"):
        SentenceEncoder(str(trained / "out"), dim=0)


def test_only_a_width_that_was_not_trained_gets_a_warning(tmp_path, caplog):
    tiny.checkpoint(tmp_path)
    tokenizer, config = Tokenizer(tiny.VOCAB), tiny.config()
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
        train_batch_size=8, num_train_epochs=2.0, learning_rate=1e-3, eval_by="ranking",
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


def test_layers_that_the_format_cannot_say(trained):
    given = {"init_checkpoint": str(trained / "model"), "train_file": str(trained / "train.tsv"), "do_train": True}
    with pytest.raises(ValueError, match="must pool its last layer. Received layers=embeddings"):
        run(**given, output_dir=str(trained / "no"), layers="embeddings", save_format=["sentence_transformers"],
            train_batch_size=8, max_seq_length=12)  # fmt: skip
    assert not (trained / "no").exists()


def test_there_is_something_to_train(trained):
    with pytest.raises(ValueError, match="`freeze_layers=all` requires a head to train"):
        run(init_checkpoint=str(trained / "model"), train_file=str(trained / "train.tsv"), do_train=True,
            output_dir=str(trained / "no"), max_seq_length=12, freeze_layers="all")  # fmt: skip


def test_folders_that_cannot_be_trained(trained, tmp_path):
    write(tmp_path, (*PLAIN, ("Dense", "2_Dense")), **{"2_Dense__config": {"out_features": 3}})
    for file in (trained / "model").iterdir():
        if file.is_file() and file.name != "modules.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ValueError, match="maps its embeddings with Dense modules; use another"):
        run(init_checkpoint=str(tmp_path), train_file=str(trained / "train.tsv"), do_train=True, max_seq_length=12,
            output_dir=str(tmp_path / "out"))  # fmt: skip
