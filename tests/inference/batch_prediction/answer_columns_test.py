"""Columns for labels and their probabilities: which there are, and what each format makes of them."""

import csv
import json

import numpy as np
import pytest
from pyarrow import parquet

from bert_tf.data.ragged import Ragged
from bert_tf.export.trained_model import export_trained
from bert_tf.inference.batch_prediction.answer_columns import LabelColumns, label_columns
from bert_tf.inference.batch_prediction.column_values import EntityLists, Labeled, Partial, Slice
from bert_tf.inference.batch_prediction.exported_model import ExportedModel, find_model
from bert_tf.inference.batch_prediction.input_table import TableRows
from bert_tf.inference.batch_prediction.output_formats import format_of
from tests.export.models import write_trained

LABELS = ["a", "b, c", "d"]
PROBABILITIES = np.array([[0.2, 0.7, 0.6], [0.5, 0.25, 0.25], [0.1, 0.2, 0.4]], np.float32)
MODEL = ExportedModel("model", "serving_default", (), outputs=("label", "labels", "probabilities"))


def shaped(predicted=None, **options):
    """Returns {column: list of JSON values} for `PROBABILITIES`, without the id and the label."""
    labels = np.array([LABELS] * 3, object)
    columns = {"id": ["0", "1", "2"], "label": ["b, c", "a", "d"], "probabilities": PROBABILITIES, "labels": labels}
    columns |= {} if predicted is None else {"predicted": np.array(predicted, bool)}
    found = LabelColumns(MODEL, **options).shape(columns | {"confident": np.array([True, False, False])})
    names = list(found)
    assert names[:3] == ["id", "label", "probability"] and names[-1] == "confident"
    assert found["probability"].tolist() == PROBABILITIES.max(-1).tolist()
    return {name: found[name] for name in names[3:-1]}


def rows_of(ragged):
    return [row.tolist() for row in ragged.rows()]


def test_all_probabilities_one_column_each_or_none():
    found = shaped()
    assert list(found) == ["probabilities"] and found["probabilities"].labels == LABELS
    np.testing.assert_array_equal(found["probabilities"].values, PROBABILITIES)
    found = shaped(probabilities="columns")
    assert list(found) == ["probability_a", "probability_b, c", "probability_d"]
    np.testing.assert_array_equal(np.stack(list(found.values()), -1), PROBABILITIES)
    assert shaped(probabilities="none") == {}


def test_the_most_probable_labels():
    found = shaped(probabilities="none", top_k=2)
    assert found["top_labels"].tolist() == [["b, c", "d"], ["a", "b, c"], ["d", "b, c"]]  # of equal ones, the first
    np.testing.assert_array_equal(found["top_probabilities"], np.float32([[0.7, 0.6], [0.5, 0.25], [0.4, 0.2]]))
    assert shaped(top_k=9)["top_labels"].shape == (3, 3)


def test_the_labels_that_a_multi_label_model_predicts():
    found = shaped(has_several_labels=True)
    assert rows_of(found["predicted"]) == [["b, c", "d"], [], []]  # above 0.5
    assert rows_of(found["predicted_probabilities"]) == [PROBABILITIES[0, 1:].tolist(), [], []]
    found = shaped([[0, 0, 1], [1, 1, 0], [0, 0, 0]], has_several_labels=True)  # by the model's own thresholds
    assert rows_of(found["predicted"]) == [["d"], ["a", "b, c"], []]


def test_choices_and_entities():
    probabilities = Ragged.of_lengths(np.float32([0.25, 0.75, 1]), [2, 1])
    answer = {"id": ["0", "1"], "probabilities": probabilities, "choice": [1, 0]}
    found = LabelColumns(MODEL).shape(answer)
    assert list(found) == ["id", "choice", "probability", "probabilities"]
    assert found["probability"].tolist() == [0.75, 1.0]
    assert list(LabelColumns(MODEL, "none").shape(answer)) == ["id", "choice", "probability"]
    assert isinstance(LabelColumns(MODEL).shape({"id": ["0"], "entities": [[]]})["entities"], EntityLists)


def test_labels_that_differ_between_rows():
    labels = np.array([LABELS, LABELS[::-1]], object)
    answer = {"id": ["0", "1"], "label": ["d", "a"], "probabilities": PROBABILITIES[:2], "labels": labels}
    with pytest.raises(ValueError, match="labels must be the same in all rows; got .* `probabilities=none`, or"):
        LabelColumns(MODEL).shape(answer)
    found = LabelColumns(MODEL, "none", 1).shape(answer)
    assert found["top_labels"].tolist() == [["b, c"], ["d"]]
    with pytest.raises(ValueError, match="labels and probabilities of the same shape"):
        LabelColumns(MODEL).shape(answer | {"labels": labels[:, :2]})


@pytest.mark.parametrize(
    "outputs, options, message",
    [
        (("score",), {"top_k": 2}, "`top_k=2` requires a model with the outputs label, probabilities, labels; the"),
        (("choice", "probabilities"), {"probabilities": "columns"}, "`probabilities=columns` requires a model with"),
        (("score",), {"probabilities": "none"}, "the signature 'serving_default' of model has score. Remove it."),
    ],
)
def test_requests_without_effect_are_refused(outputs, options, message):
    with pytest.raises(ValueError) as error:
        label_columns(ExportedModel("model", "serving_default", (), outputs=outputs), **options)
    assert message in str(error.value)


def test_fewer_columns_by_default_with_top_k():
    assert label_columns(MODEL).probabilities == "all"
    assert label_columns(MODEL, None, 3).probabilities == "none"
    assert label_columns(MODEL, "all", 3).identity.items() >= {"probabilities": "all", "top_k": 3}.items()


def written(tmp_path, name, *parts):
    """Returns the path of the table of the parts, {column: values} each."""
    form, slices = format_of(name), []
    for number, columns in enumerate(parts):
        slices.append(Slice(str(tmp_path / f"part-{number}"), 0, len(columns["id"])))
        form.write(slices[-1].path, columns)
    form.join(str(tmp_path / name), slices)
    return tmp_path / name


def parts(labels=LABELS):
    first = {"id": ["0", "1"], "probabilities": Labeled(PROBABILITIES[:2], LABELS)}
    return first, {"id": ["2"], "probabilities": Labeled(PROBABILITIES[2:], labels)}


def test_labels_are_keys_in_text_formats(tmp_path):
    expected = [dict(zip(LABELS, row, strict=True)) for row in ([0.2, 0.7, 0.6], [0.5, 0.25, 0.25], [0.1, 0.2, 0.4])]
    lines = written(tmp_path, "out.jsonl", *parts()).read_text("utf-8").splitlines()
    assert [json.loads(line)["probabilities"] for line in lines] == expected
    with open(written(tmp_path, "out.csv", *parts()), encoding="utf-8", newline="") as file:
        assert [json.loads(row["probabilities"]) for row in csv.DictReader(file)] == expected


def test_labels_stand_once_in_parquet_and_npz(tmp_path):
    table = parquet.read_table(written(tmp_path, "out.parquet", *parts()))
    assert json.loads(table.schema.metadata[b"labels"]) == LABELS and table.column_names == ["id", "probabilities"]
    np.testing.assert_array_equal(np.float32(table["probabilities"].to_pylist()), PROBABILITIES)
    arrays = np.load(written(tmp_path, "out.npz", *parts()))
    assert arrays.files == ["id", "probabilities", "probabilities_labels"]
    assert arrays["probabilities_labels"].tolist() == LABELS
    np.testing.assert_array_equal(arrays["probabilities"], PROBABILITIES)


@pytest.mark.parametrize("name", ["out.parquet", "out.npz"])
def test_parts_with_different_labels_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="labels must be the same in all rows"):
        written(tmp_path, name, *parts(LABELS[::-1]))


def test_a_row_without_a_text_has_no_probabilities(tmp_path):
    missing = np.array([False, True, False])
    columns = {"id": ["0", "1", "2"], "probabilities": Partial(Labeled(PROBABILITIES, LABELS), missing)}
    lines = written(tmp_path, "out.jsonl", columns).read_text("utf-8").splitlines()
    assert json.loads(lines[1]) == {"id": "1", "probabilities": None}
    table = parquet.read_table(written(tmp_path, "out.parquet", columns))
    assert json.loads(table.schema.metadata[b"labels"]) == LABELS
    assert [row is None for row in table["probabilities"].to_pylist()] == [False, True, False]


def test_parquet_files_have_one_schema_with_and_without_entities(tmp_path):
    entity = {"text": "Mia", "type": "PER", "start": 0, "end": 3, "score": 0.5}
    schemas = [parquet.read_schema(written(tmp_path, f"{n}.parquet", {"id": ["0"], "entities": EntityLists([each])}))
               for n, each in enumerate(([], [entity]))]  # fmt: skip
    assert schemas[0] == schemas[1]
    assert parquet.read_table(tmp_path / "1.parquet")["entities"].to_pylist() == [[entity]]


@pytest.mark.slow
def test_an_export_says_whether_a_text_may_have_several_labels(tmp_path):
    for name in ("multi_label", "regression"):
        write_trained(tmp_path / name, name)
        export_trained(str(tmp_path / name), str(tmp_path / name / "export"))
    assert not label_columns(find_model(str(tmp_path / "regression" / "export"))).has_several_labels
    maker = label_columns(find_model(str(tmp_path / "multi_label" / "export")))
    found = maker()(TableRows(["0", "1"], (["a good film", "bad music"],)))
    assert list(found) == ["id", "label", "probability", "predicted", "predicted_probabilities", "probabilities"]
    for row, names in zip(found["probabilities"].values, found["predicted"].rows(), strict=True):
        assert names.tolist() == [name for name, value in zip("abc", row, strict=True) if value > 0.5]
