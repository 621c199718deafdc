"""What an embedding run reads, and what it refuses."""

import re

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.example_checks import check_samples
from bert_tf.evaluation.metrics import higher_is_better
from bert_tf.evaluation.ranking import ranking_metrics
from bert_tf.tasks.base import SplitPredictions
from bert_tf.tasks.embedding.encoding import encode_text_groups
from bert_tf.tasks.embedding.options import EmbeddingOptions
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.embedding.text_groups import TextGroups
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.batching import BatchSettings
from tests import tiny
from tests.tasks.embedding.support import described
from tests.tasks.reranking.support import write_jsonl
from tests.tasks.support import options

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
    by_score = read(["train", "dev"], **files, eval_metric="spearman", highest_score=10.0)
    assert by_score["train"].labels is None and by_score["dev"].labels == [0.5, 0]
    three = read(["train"], **files, loss="triplet", text_column=["text_a", "text_b", "text_c"])["train"]
    assert three.text_c == ["bad film", "story"] and three.lines == [2, 3]


def test_sts_b(tmp_path):
    for name in ("train", "dev"):
        tiny.write_tsv(tmp_path / f"{name}.tsv", [("0", "a", "b", "2.5")], "index\tsentence1\tsentence2\tscore")
    task = {"task_name": "sts-b", "data_dir": str(tmp_path)}
    assert read(["train", "dev"], **task, loss="cosine")["dev"].labels == [0.5]
    with pytest.raises(ValueError, match="Training on `task_name=sts-b`, whose pairs .* requires `loss=cosine`"):
        read(["train", "dev"], **task, eval_metric="spearman")
    with pytest.raises(ValueError, match="`task_name` must be a GLUE task with pair scores; got rte"):
        read(["dev"], **task | {"task_name": "rte"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "cosine"}, r"pairs.tsv:2: the score must be a number from -1 to 1; got '5' in column 'label'"),
        ({"loss": "cosine", "label_column": "score"}, "pairs.tsv.*'score'.*check `label_column`, which contains"),
        ({"loss": "contrastive", "highest_score": 10.0}, "pairs.tsv:2: the score must be 0 or `highest_score` for "
         "`loss=contrastive`; got 0.5 of it"),
        ({"loss": "triplet"}, "must name 3 columns for `loss=triplet`; got 2: text_a,text_b"),
        ({"loss": "cosine", "text_column": ["a", "b", "c"]}, "must name 2 columns for `loss=cosine`"),
        ({"loss": "triplet", "temperature": 0.1},
         "`temperature` requires `loss=in_batch_negatives` or `loss=margin_mse`; got `temperature=0.1` with "
         "`loss=triplet`, which does not read it"),
        ({"margin": 0.2}, "`margin` requires `loss=contrastive` or `loss=triplet`; got `margin=0.2` with "
         "`loss=in_batch_negatives`"),
        ({"label_column": "label"}, r"`label_column` requires a loss that reads scores \(cosine, contrastive, "
         r"margin_mse\), or `eval_metric=spearman`; got `loss=in_batch_negatives`, which does not read"),
        ({"loss": "triplet", "highest_score": 5.0}, r"`highest_score` requires .* \(cosine, contrastive\), or"),
        ({"text_column": ["text_a"]}, "must name 2 or 3 columns for `loss=in_batch_negatives`; got 1"),
        ({"data_dir": "x"}, "got `data_dir` alone"),
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
    encoded = encode_text_groups(WordPieceTokenizer(tiny.VOCAB), groups, 8, {}, "file")
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
    by_score = read(["train", "dev"], **columns, loss="margin_mse", eval_metric="spearman", highest_score=5.0)
    assert by_score["train"].labels == [5, 0] and by_score["dev"].labels == [1, 0]
    with pytest.raises(ValueError, match="`highest_score` cannot be combined with `loss=margin_mse`"):
        read(["train"], **columns, loss="margin_mse", highest_score=5.0)
    with pytest.raises(ValueError, match="`label_column` requires a table; got .*lists.jsonl, which contains queries"):
        read(["train"], train_file=str(lists), loss="margin_mse", label_column="label")
    none = write_jsonl(tmp_path / "none.jsonl", LISTS)
    message = "none.jsonl.*missing column 'scores'.*; create the file with `bert-tf data mine-negatives` and its"
    with pytest.raises(ValueError, match=message):
        read(["train"], train_file=str(none), loss="margin_mse")
    short = write_jsonl(tmp_path / "short.jsonl", [("a", ["b"], ["c"], [1.0])],
                        ("query", "positives", "negatives", "scores"))  # fmt: skip
    with pytest.raises(ValueError, match=r"short.jsonl:1: 'scores' must be a list of 2 numbers, .* got \[1.0\]"):
        read(["train"], train_file=str(short), loss="margin_mse")


@pytest.mark.slow
def test_a_model_learns_a_rerankers_margins():
    """With the default temperature, the differences of its cosines become the margins times the temperature."""
    tf.keras.utils.set_random_seed(0)
    task = EmbeddingTask(tiny.config(initializer_range=0.3), loss="margin_mse", loss_temperature=0.05)
    texts = ["a good film", "it", "the story", "see"], ["great", "music", "people", "is"], ["dull", "bad", "fine", "a"]
    queries, positives, negatives = texts
    groups = TextGroups(list("0123"), queries, positives, [[text] for text in negatives], "file", [1, 2, 3, 4],
                        [14.0, 6.0, -8.0, 10.0])  # fmt: skip
    encoded = task.encode_examples(WordPieceTokenizer(tiny.VOCAB), groups, 8, True)
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
    task, tokenizer = EmbeddingTask(tiny.config(), loss=loss), WordPieceTokenizer(tiny.VOCAB)
    pairs_alone = tiny.write_tsv(tmp_path / "pairs.tsv", ROWS, "text_a\ttext_b\tlabel\ttext_c")
    encoded = task.encode_examples(tokenizer, read(["dev"], eval_file=str(pairs_alone))["dev"], 8, True)
    assert not encoded.targets
    by_score = EmbeddingTask(tiny.config(), loss=loss, eval_metric="spearman")
    assert by_score.example_losses(tf.ones([2, 2, 4]), {"label_values": tf.ones(2)}) is None


@pytest.mark.parametrize(("given", "message"), [
    ({"loss": "cosine"}, "lists.jsonl: `loss=cosine` requires pairs with scores; got queries with lists"),
    ({"drop_empty": True}, "`drop_empty` requires a table; got .*lists.jsonl, which contains queries with lists"),
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
    given = options(EmbeddingOptions, eval_file=str(path), train_file=str(path), eval_metric="ranking")
    data = EmbeddingTask.read_data(given, ["train", "dev"], None).examples
    assert [len(each) for each in data.values()] == [3, 2]  # a training example per relevant document
    assert not check_samples({kind: EmbeddingTask.checked_examples(each, None, given) for kind, each in data.items()})
    task = EmbeddingTask.create(described(), None, given, None)
    encoded = task.encode_examples(WordPieceTokenizer(tiny.VOCAB), data["dev"], 8, True)
    assert encoded.row_counts.tolist() == [4, 3] and not encoded.targets
    found = task.metrics(RANKED_VECTORS, encoded)
    assert found == ranking_metrics([[0, 2, 1], [1, 0]]) and tuple(found) == task.metric_names
    assert task.example_losses(tf.constant(RANKED_VECTORS), {}) is None
    report = task.error_report(SplitPredictions("dev", data["dev"], encoded, RANKED_VECTORS, None))
    assert report.ranks.tolist() == [2, 1]
    short = EmbeddingTask(tiny.config(), eval_metric="ranking", matryoshka_dims=(32, 1))
    assert short.metrics(RANKED_VECTORS, encoded).keys() == set(short.metric_names)
    assert higher_is_better("ndcg_at_10_dim_1")


def test_a_run_is_ranked_with_its_qrels(tmp_path):
    files = {"eval_file": ("a.run", "q d1 1\nq d2 2\n"), "qrels_file": ("qrels", "q 0 d2 1\nq 0 d3 1\n"),
             "queries_file": ("queries.tsv", "q\tgood\n"),
             "documents_file": ("documents.tsv", "d1\tfilm\nd2\tmusic\nd3\tpeople\n")}  # fmt: skip
    for name, text in files.values():
        (tmp_path / name).write_text(text, encoding="utf-8")
    given = {flag: str(tmp_path / name) for flag, (name, _) in files.items()} | {"eval_metric": "ranking"}
    [examples] = read(["dev"], **given).values()
    assert (examples.documents, examples.relevances, examples.judged) == ([["film", "music"]], [[0, 1]], [[1, 1]])
    path = str(write_jsonl(tmp_path / "lists.jsonl", RANKINGS, ("query", "documents", "relevances")))
    with pytest.raises(ValueError, match=r"`queries_file` requires a run \(.run or .trec\) among the data files"):
        read(["dev"], **given | {"eval_file": path})
    with pytest.raises(ValueError, match="`eval_metric=ranking` requires queries with documents; got `task_name=sts"):
        read(["dev"], task_name="sts-b", data_dir="x", eval_metric="ranking")
