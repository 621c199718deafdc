"""`bert-tf predict`: any SavedModel that takes texts, over any table."""

import importlib
import json
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.inference.batch_prediction.exported_model import find_model, match_columns
from tests import run_cases
from tests.serving import models


def _strings(name, *dims):
    return tf.TensorSpec([None, *dims], tf.string, name)


class Other(tf.Module):
    """Signatures such as other people's models have."""

    @tf.function(input_signature=[_strings("choices", None), _strings("context")])
    def choose(self, choices, context):
        tf.debugging.assert_none_equal(context, "broken", message="the context is broken")
        lengths = tf.strings.length(choices)
        return {"choice": tf.argmax(lengths, -1), "probabilities": tf.cast(lengths, tf.bfloat16) / 4}

    @tf.function(input_signature=[_strings("keras_tensor", 1)])
    def words(self, keras_tensor):
        words = tf.strings.split(keras_tensor[:, 0])
        return {"words": words.to_tensor(""), "grids": tf.ones_like(words, tf.float32).to_tensor()[:, None]}

    @tf.function(input_signature=[_strings("text")])
    def entities(self, text):
        words = tf.strings.split(text)
        places = tf.ragged.range(words.row_lengths()).to_tensor()
        names = words.to_tensor("")
        return {
            "entity": names, "type": tf.fill(tf.shape(names), "WORD"), "start": places, "end": places + 1,
            "score": tf.cast(places, tf.float32) / 10, "entity_count": words.row_lengths(),
        }  # fmt: skip

    @tf.function(input_signature=[_strings("context"), _strings("question")])
    def question(self, context, question):
        return {"asked": question + "|" + context}

    @tf.function(input_signature=[_strings("claim"), _strings("source")])
    def claim(self, claim, source):
        return {"asked": claim + "|" + source}

    @tf.function(input_signature=[_strings("text")])
    def together(self, text):
        return {"all": tf.strings.reduce_join(text)[None]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with two versions of the model `Film`, a folder that is none, and `Other`."""
    folder = tmp_path_factory.mktemp("predict")
    (folder / "film").mkdir()
    shutil.copytree(models.export(folder / "film", 12), folder / "film" / "3")
    (folder / "film" / "13").mkdir()
    other = Other()
    signatures = {"serving_default": other.choose}
    signatures |= {name: getattr(other, name) for name in ("words", "entities", "question", "claim", "together")}
    tf.saved_model.save(other, str(folder / "other"), signatures)
    (folder / "texts.txt").write_text("a good film\n\nfine\nlong and dull and bad\n", encoding="utf-8")
    rows = [("n0", "x", ["a", "bbb"]), ("n1", "y", ["c", "dd", "e"]), ("n2", "", ["gg", "f"])]
    lines = [json.dumps(dict(zip(("name", "context", "choices"), row, strict=True))) for row in rows]
    (folder / "choices.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "broken.jsonl").write_text(lines[0] + "\n" + lines[1].replace('"y"', '"broken"'), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def predict(home):
    """Runs the program; returns the rows that it writes, and what it says."""
    output = home / "out.jsonl"

    def run(name, **flags):
        output.unlink(missing_ok=True)
        arguments = [f"--{flag}={value}" for flag, value in flags.items()]
        done = run_cases.run_here("predict", [f"--input_file={home / name}", f"--output_file={output}", *arguments])
        rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()] if output.exists() else []
        assert (done["status"] == 0) == bool(rows) and "Traceback" not in done["log"], done["log"]
        return rows, done["log"]

    return run


def test_the_newest_version_answers_line_by_line(home, predict):
    rows, log = predict("texts.txt", model=home / "film", batch_size=3, header="false")
    assert [list(row) for row in rows] == [["id", "label", "probability", "probabilities"]] * 4
    assert [(row["id"], row["label"]) for row in rows] == [("0", "good"), ("1", None), ("2", "good"), ("3", "bad")]
    for row in (rows[0], *rows[2:]):
        expected = models.expected(0.75, row["label"] == "good")
        assert row["probabilities"] == dict(zip(("bad", "good"), expected, strict=True))
        assert row["probability"] == max(expected) == row["probabilities"][row["label"]]
    assert "Using version 12 of" in log and "the newest of 2" in log and "Wrote " in log
    assert "--header has no effect with" in log and "which has one text per line" in log
    assert predict("texts.txt", model=home / "film" / "3")[0] == rows


def test_columns_are_found_by_the_inputs_names_or_in_their_order(home, predict):
    (home / "pairs.tsv").write_text("left\ttext_b\ttext_a\nfine\tx\ty\nx\ty\tz\n")
    by_name, _ = predict("pairs.tsv", model=home / "film", signature="pair")
    assert [row["label"] for row in by_name] == ["bad", "bad"]
    rows, log = predict("pairs.tsv", model=home / "film", signature="pair", text_column="left,2")
    assert [row["label"] for row in rows] == ["good", "bad"]
    assert "Columns: left for the input text_a, 2 for the input text_b." in log


def test_columns_that_bear_the_inputs_names_are_not_swapped(home, predict):
    (home / "asked.jsonl").write_text('{"question": "q", "context": "c"}\n')
    flags = {"model": home / "other", "signature": "question"}
    for columns in ("question,context", "context,question", "question=question,context=context"):
        rows, log = predict("asked.jsonl", **flags, text_column=columns)
        assert [row["asked"] for row in rows] == ["q|c"], columns
        assert "Columns: question for the input question, context for the input context." in log
    (home / "pairs.csv").write_text("a,b\nq,c\n")
    rows, log = predict("pairs.csv", **flags, text_column="a,b")  # as `client ask` takes them
    assert [row["asked"] for row in rows] == ["q|c"]
    assert "Columns: a for the input question, b for the input context." in log
    flags["signature"] = "claim"
    rows, log = predict("pairs.csv", **flags, text_column="a,b")
    assert not rows and "--text_column must assign columns to the model's inputs (claim, source)" in log
    rows, log = predict("pairs.csv", **flags, text_column="source=a,claim=b")
    assert [row["asked"] for row in rows] == ["c|q"]


def test_columns_of_the_table_are_kept(home, predict):
    (home / "kept.tsv").write_text("text\tcustomer\tday\tlabel\nfine\t007\t\tx\ngood\t12\tMay\ty\n")
    rows, _ = predict("kept.tsv", model=home / "film", keep_columns="customer,2,text")
    assert [list(row)[:4] for row in rows] == [["id", "customer", "2", "text"]] * 2
    assert [[row[name] for name in ("customer", "2", "text")] for row in rows] == [["007", "", "fine"],
                                                                                  ["12", "May", "good"]]  # fmt: skip
    for name, words in (("label", "--keep_columns must not repeat the columns"), ("none", "missing column 'none'")):
        rows, log = predict("kept.tsv", model=home / "film", keep_columns=name, restart="true")
        assert not rows and words in log, log
    rows, _ = predict("kept.tsv", model=home / "film", keep_columns="3", restart="true")
    assert [row["3"] for row in rows] == ["x", "y"]


def test_a_row_without_a_text_is_answered_with_null(home, predict):
    texts = ["a good film", None, "fine"]
    (home / "gaps.jsonl").write_text("\n".join(json.dumps({"text": text, "n": n}) for n, text in enumerate(texts)))
    rows, log = predict("gaps.jsonl", model=home / "film", keep_columns="n")
    assert [row["label"] for row in rows] == ["good", None, "good"]
    assert rows[1] == {"id": "1", "n": 1, "label": None, "probability": None, "probabilities": None}
    assert "gaps.jsonl: 1 of 3 rows have no text (null or empty), in line 2; their predictions are null." in log
    assert "1 of 3 rows have null predictions, because their text is missing." in log
    lists = [{"context": "x", "choices": ["a", "bbb"]}, {"context": "y", "choices": ["a", None]}]
    (home / "gaps.jsonl").write_text("\n".join(map(json.dumps, lists)))
    rows, _ = predict("gaps.jsonl", model=home / "other")
    assert [row["choice"] for row in rows] == [1, None]


def test_lists_of_unequal_lengths(home, predict):
    rows, _ = predict("choices.jsonl", model=home / "other", id_column="name")
    assert rows == [
        {"name": "n0", "choice": 1, "probability": 0.75, "probabilities": [0.25, 0.75]},
        {"name": "n1", "choice": 1, "probability": 0.5, "probabilities": [0.25, 0.5, 0.25]},
        {"name": "n2", "choice": 0, "probability": 0.5, "probabilities": [0.5, 0.25]},
    ]


def test_outputs_of_unequal_lengths(home, predict):
    rows, _ = predict("texts.txt", model=home / "other", signature="words", batch_size=1)
    words = ["a good film", "", "fine", "long and dull and bad"]
    assert [row["words"] for row in rows] == [text.split() or None for text in words]
    assert [row["grids"] for row in rows] == [[[1.0] * 3], None, [[1.0]], [[1.0] * 5]]
    rows, _ = predict("texts.txt", model=home / "other", signature="entities")
    assert [list(row) for row in rows] == [["id", "entities"]] * 4
    assert rows[2]["entities"] == [{"text": "fine", "type": "WORD", "start": 0, "end": 1, "score": 0.0}]
    assert [len(row["entities"] or ()) for row in rows] == [3, 0, 1, 5] and rows[1]["entities"] is None


def test_bad_models_signatures_and_columns_are_refused(home, predict):
    (home / "torn").mkdir(exist_ok=True)
    (home / "torn" / "saved_model.pb").write_bytes(b"torn")
    (home / "empty").mkdir(exist_ok=True)
    (home / "empty" / "saved_model.pb").write_bytes(b"")
    (home / "lora").mkdir(exist_ok=True)
    (home / "lora" / "adapter_config.json").write_text('{"base_model_name_or_path": "base"}')
    film, other = home / "film", home / "other"
    for name, flags, words in [
        ("texts.txt", {"model": home / "lora"},
         "lora contains LoRA adapters without the model that they were trained on"),
        ("texts.txt", {"model": home}, "--model must be a directory with saved_model.pb, with numbered versions of it, "
         f"or with a trained model (bert_config.json or config.json); got {home}, which has one directory per model"),
        ("texts.txt", {"model": home / "none"}, "none, which is not a directory."),
        ("texts.txt", {"model": home / "torn"}, "torn/saved_model.pb is not a readable SavedModel: "),
        ("texts.txt", {"model": home / "empty"}, "empty has no graph with the tag 'serve'"),
        ("texts.txt", {"model": film, "signature": "tag"}, "classify, echo, numbers, pair, regress, serving_default;"),
        ("texts.txt", {"model": film, "signature": "classify"}, "takes tf.Examples. Choose a signature that"),
        ("texts.txt", {"model": film, "signature": "numbers"},
         "the input 'scale' is int32 [-1]. Choose a signature that takes texts."),
        ("texts.txt", {"model": film, "signature": "pair"}, "--input_file must be a .tsv, .csv, .jsonl or .parquet"),
        ("texts.txt", {"model": other, "signature": "together"}, "it returned the output 'all' of shape [1]"),
        ("choices.jsonl", {"model": film}, "choices.jsonl:1: missing column 'text' (--text_column)"),
        ("choices.jsonl", {"model": other, "text_column": "context"}, "the model's inputs (context, choices)"),
        ("choices.jsonl", {"model": other, "text_column": "context,name"}, "jsonl:1: the texts must be a list"),
        ("broken.jsonl", {"model": other}, "other failed on 1 row from '1' on: "),
    ]:
        rows, log = predict(name, **flags)
        assert not rows and words in log, log
        assert not (home / "out.jsonl.parts").exists()


def test_a_model_is_another_one_when_its_files_change(home):
    before = find_model(str(home / "film")).identity
    assert before == find_model(str(home / "film")).identity
    data = models.variables(pathlib.Path(find_model(str(home / "film")).path))
    data.write_bytes(data.read_bytes())
    assert before != find_model(str(home / "film")).identity


@pytest.fixture
def nothing_imported(monkeypatch):
    """Takes the modules of bert_tf for not imported; those that a test imports are forgotten after it."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "bert_tf"}

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "bert_tf"]:
            del sys.modules[name]

    forget()
    monkeypatch.setattr(run_cases, "start_program", importlib.import_module("bert_tf.cli.main").start_program)
    yield
    forget()
    sys.modules.update(before)


def test_it_needs_neither_layers_nor_tasks_but_their_table(home, nothing_imported):
    words = [f"--model={home}/film", f"--input_file={home}/texts.txt", f"--output_file={home}/out.npz"]
    done = run_cases.run_here("predict", [*words, "--on_null=skip"])
    assert done["status"] == 0, done["log"]
    needed = [name for name in sys.modules if name.startswith(("bert_tf.models", "bert_tf.tasks"))]
    assert needed == ["bert_tf.tasks", "bert_tf.tasks.built_in"]
    written = np.load(home / "out.npz")
    assert set(written) == {"id", "label", "probability", "probabilities", "probabilities_labels"}
    assert written["probabilities"].shape == (3, 2) and written["probabilities_labels"].tolist() == ["bad", "good"]


QUESTION, PAIR, CHOICES = ("question", "context"), ("text_a", "text_b"), ("context", "choices")
OTHER = ("left", "right")


@pytest.mark.parametrize(
    "inputs, columns, expected",
    [
        (QUESTION, ["question", "context"], ["question", "context"]),
        (QUESTION, ["context", "question"], ["question", "context"]),
        (QUESTION, ["q", "passage"], ["q", "passage"]),  # as `client ask` takes them
        (QUESTION, ["passage", "question"], ["question", "passage"]),
        (QUESTION, ["1", "0"], ["1", "0"]),
        (QUESTION, ["context=0", "question=1"], ["1", "0"]),
        (QUESTION, ["question=context", "context=question"], ["context", "question"]),
        (PAIR, ["text_b", "text_a"], ["text_a", "text_b"]),
        (PAIR, ["x", "x"], ["x", "x"]),
        (CHOICES, ["sentence", "endings"], ["sentence", "endings"]),
        (OTHER, ["right", "left"], ["left", "right"]),
        (OTHER, ["right", "x"], ["x", "right"]),
        (OTHER, ["right=x", "left=y=z"], ["y=z", "x"]),
        (("text",), ["a=b"], ["a=b"]),
        (("text",), ["text=review"], ["review"]),
    ],
)
def test_columns_go_by_name_and_else_in_the_order_of_people(inputs, columns, expected):
    assert match_columns(inputs, columns) == dict(zip(inputs, expected, strict=True))


@pytest.mark.parametrize(
    "inputs, columns, message",
    [
        (OTHER, ["x", "y"], "because their order is unknown; got x,y. Write INPUT=COLUMN for each, such as "
         "left=x,right=y."),
        (QUESTION, ["question"], "for each of the model's inputs (question, context); got question."),
        (QUESTION, ["question", "question"], "a different column for each of the model's inputs (question, context)"),
        (QUESTION, ["question=a", "question=b"], "got question=a,question=b. Name each column once."),
    ],
)  # fmt: skip
def test_what_cannot_be_known_is_refused(inputs, columns, message):
    with pytest.raises(ValueError) as error:
        match_columns(inputs, columns)
    assert message in str(error.value)
