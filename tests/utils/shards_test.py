"""Names of files that share a job's rows."""

import pytest

from bert_tf.utils import shards


@pytest.mark.parametrize(
    ("output_file", "num_shards", "written", "report"),
    [
        (["a/train.tfrecord"], None, ["a/train.tfrecord"], "a/train_report"),
        (["train.tfrecord.gz"], 2, ["train-00000-of-00002.tfrecord.gz", "train-00001-of-00002.tfrecord.gz"],
         "train_report"),
        (["v1.2/train"], 1, ["v1.2/train-00000-of-00001"], "v1.2/train_report"),
        (["x.rec", "y.rec"], None, ["x.rec", "y.rec"], "x_report"),
    ],
)  # fmt: skip
def test_names_of_files(output_file, num_shards, written, report):
    assert shards.output_files(output_file, num_shards) == written
    assert shards.report_name(output_file) == report


def test_the_same_file_twice():
    with pytest.raises(ValueError, match="must not repeat a file"):
        shards.output_files(["a", "a"], None)


@pytest.mark.parametrize(("path", "name"), [
    ("a/train-00003-of-00008.tfrecord.gz", "a/train"), ("train.tfrecord", "train"), ("v1.2/b-1", "v1.2/b-1"),
    ("a/x-00001-of-00002", "a/x"),
])  # fmt: skip
def test_what_the_files_of_one_output_have_in_common(path, name):
    assert shards.set_name(path) == name
