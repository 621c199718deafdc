"""The files of a run: columns, scores and their scale, and what is refused."""

import pytest

from bert_tf.tasks.embedding import EmbeddingTask
from bert_tf.tasks.options import EmbeddingOptions
from tests import tiny
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
    by_score = read(["train", "dev"], **files, eval_by="spearman", highest_score=10.0)
    assert by_score["train"].labels is None and by_score["dev"].labels == [0.5, 0]
    three = read(["train"], **files, loss="triplet", text_column=["text_a", "text_b", "text_c"])["train"]
    assert three.text_c == ["bad film", "story"] and three.lines == [2, 3]


def test_sts_b(tmp_path):
    for name in ("train", "dev"):
        tiny.write_tsv(tmp_path / f"{name}.tsv", [("0", "a", "b", "2.5")], "index\tsentence1\tsentence2\tscore")
    task = {"task_name": "sts-b", "data_dir": str(tmp_path)}
    assert read(["train", "dev"], **task, loss="cosine")["dev"].labels == [0.5]
    assert read(["train"], **task)["train"].labels is None
    with pytest.raises(ValueError, match="`task_name` must be a task of GLUE whose pairs have scores. Received: rte"):
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
        ({"text_column": ["text_a"]}, "must name 2 or 3 columns for `loss=in_batch_negatives`. Received 1"),
        ({"data_dir": "x"}, "Received `data_dir` alone; give both"),
        ({"task_name": "sts-b", "data_dir": "x"}, "from `task_name` or from files. Received `task_name=sts-b` and"),
        ({"train_file": None}, "`do_train` must have texts. Received no `train_file`"),
    ],
)  # fmt: skip
def test_what_is_refused(given, message, path):
    with pytest.raises(ValueError, match=message):
        read(["train"], **{"train_file": path} | given)


def test_an_empty_file(tmp_path):
    (tmp_path / "none.tsv").write_text("text_a\ttext_b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="none.tsv must hold at least one example"):
        read(["train"], train_file=str(tmp_path / "none.tsv"))
