"""`bert_tf.Predictor`: the answers of an export, from the export itself or from the trained model."""

import concurrent.futures
import dataclasses
import functools
import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.trained_model import export_trained
from bert_tf.inference.fill_mask import Filler
from bert_tf.inference.text_model import TextInput, TextModel
from bert_tf.serving.server.metrics import prometheus_text
from bert_tf.serving.server.predict import run_predict
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.serving.server.saved_model import SavedModel
from bert_tf.serving.server.scheduling import Scheduler
from bert_tf.serving.server.versions import direct
from bert_tf.utils.answers import split_answer
from bert_tf.utils.token_counts import TokenCountLog
from tests import run_cases, sentence_folders, tiny
from tests.export import models
from tests.fake_pandas import DataFrame, Series
from tests.parity import GOLDENS

BFLOAT16 = ExportOptions("bfloat16")
# The longest first, as batches are, so that the signature below computes the very same batch.
TEXTS = sorted((text for text, _ in tiny.texts(9, seed=4)), key=len, reverse=True)
FILM = "the film is good ."


@pytest.fixture(scope="module")
def classify(exported):
    return bert_tf.Predictor(exported("classification"))


@pytest.fixture(scope="module")
def predictors(classify, exported):
    return functools.cache(lambda name: classify if name == "classification" else bert_tf.Predictor(exported(name)))


def _examples(inputs):
    """Returns examples for a model with these inputs, the longest first."""
    if len(inputs) == 1:
        return TEXTS
    return [(text, [text, "a story"] if {"choices", "documents"} & {*inputs} else text) for text in TEXTS]


def _served(path, inputs, examples):
    """Returns the answers of the exported signature for all examples at once."""
    columns = zip(*[(each,) if isinstance(each, str) else each for each in examples], strict=True)
    serve = tf.saved_model.load(os.path.join(path, "1")).signatures["serving_default"]
    outputs = serve(**{name: tf.constant(texts) for name, texts in zip(inputs, columns, strict=True)})
    return split_answer({name: value.numpy() for name, value in outputs.items()}, len(examples))


def _counted(predictor, examples):
    """Returns the answers, and by how much each count of tokens and texts has grown."""
    before = predictor.token_counts.total
    answers = predictor(examples)
    after = predictor.token_counts.total
    return answers, {name: value - getattr(before, name) for name, value in after._asdict().items()}


def _some_slow(quick, names):
    """Returns parameters, of which only some belong to the quick tests: each takes seconds to trace."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", _some_slow(("classification",), models.TASKS))
def test_the_answers_are_those_of_the_export_and_of_the_trained_model(name, exported, predictors, of_training):
    predictor, other = predictors(name), of_training(name)
    examples = _examples(predictor.inputs)
    (answers, counts), (others, other_counts) = (_counted(each, examples) for each in (predictor, other))
    assert answers == _served(exported(name), predictor.inputs, examples) and len(answers) == len(TEXTS)
    assert other.inputs == predictor.inputs and others == answers
    assert other_counts == counts and counts["tokens"] >= sum(len(text.split()) for text in TEXTS)


@pytest.mark.parametrize("name", _some_slow(("classification",), models.TASKS))
def test_a_loaded_model_predicts_with_its_current_weights(name, trained, of_training, tmp_path):
    predictor, bert = of_training(name), bert_tf.load(trained(name))
    examples = _examples(predictor.inputs)
    answers = predictor(examples)
    assert bert.predict(examples) == answers
    assert bert.predict(examples[0], batch_size=1) == predictor(examples[0])
    for variable in bert.encoder.trainable_variables:
        variable.assign(2 * variable)
    assert bert.predict(examples) != answers and predictor(examples) == answers
    bert_tf.save(bert, tmp_path / "changed")
    assert bert.predict(examples) == bert_tf.Predictor(tmp_path / "changed")(examples)


def test_a_loaded_masked_lm_predicts(pretrained):
    answer, [filled] = bert_tf.load(pretrained).predict("a [MASK] film"), Filler(pretrained)(["a [MASK] film"])
    assert answer["token"] == filled["token"] and answer["probability"] == pytest.approx(filled["probability"], 1e-4)


def test_a_loaded_model_keeps_the_tokenizer_that_it_was_loaded_with(trained, of_training, tmp_path):
    swapped = {"film": "story", "story": "film"}
    (tmp_path / "vocab.txt").write_text("\n".join(swapped.get(word, word) for word in tiny.VOCAB) + "\n")
    bert = bert_tf.load(trained("classification"), vocab_file=tmp_path / "vocab.txt")
    assert bert_tf.Predictor(bert)("a film") == of_training("classification")("a story")


def test_what_a_loaded_model_needs_for_predictions(trained):
    bert = bert_tf.load(trained("classification"))
    with pytest.raises(ValueError, match="require all heads of the encoder; got the result of `ablate_heads`"):
        bert_tf.inspect.ablate_heads(bert, {0: [1]}).predict(FILM)
    with pytest.raises(ValueError, match="whose files define its task and its tokenizer; this one was not loaded from"):
        dataclasses.replace(bert, path=None, _built={}).predict(FILM)
    with pytest.raises(ValueError, match="`path` must be a path; got an object of class Encoder. Pass a directory or"):
        bert_tf.Predictor(bert.encoder)
    with pytest.raises(ValueError, match="`engine` requires an export, and .* is not one"):
        bert_tf.Predictor(bert, engine="litert")


def test_texts_that_the_model_does_not_read_are_counted_served_and_warned_of(exported, caplog):
    folder = os.path.join(exported("classification"), "1")
    predictor = bert_tf.Predictor(folder)
    caplog.clear()  # of TensorFlow's own line, which depends on what was imported before
    predictor([FILM] * 9)
    assert predictor.token_counts.total == (9, 0, 45, 0, 0) and not caplog.records
    predictor(["film " * 100, "zebra film"])
    assert predictor.token_counts.total == (11, 1, 147, 1, 0) and not caplog.records  # a tenth is not exceeded
    predictor(["film " * 100, "film"])
    predictor(["film " * 100, "zebra " * 200], batch_size=1)
    assert [record.getMessage().partition(": ")[2].partition(". ")[0] for record in caplog.records] == [
        "2 of 13 texts (15.4%) are truncated; 1 of 248 tokens (0.4%) are unknown", "4 of 15 texts (26.7%) are "
        "truncated; 201 of 548 tokens (36.7%) are unknown; 1 of 15 texts (6.7%) consists mostly of unknown tokens",
    ]  # fmt: skip
    version = types.SimpleNamespace(
        name="counted", model=SavedModel(folder), batched=None, scheduler=Scheduler()
    )
    version.compute = direct(version.model, version.scheduler)
    serve = functools.partial(run_predict, version, version.model.signatures["serving_default"])
    serve({"text": np.array([b"zebra"], object)})  # a request of the server itself, such as a warm-up
    serve({"text": np.array([FILM.encode(), b"film zebra", b"film " * 100, b"zebra"], object)}, call=RequestContext())
    page = prometheus_text().decode()
    counts = {"text": 4, "truncated_text": 1, "token": 108, "unknown_token": 2, "unknown_text": 1}
    for name, count in counts.items():
        assert f':bert_tf:serving:{name}_count{{model_name="counted"}} {count}.0' in page
    version.model.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", models.TASKS)
def test_bfloat16(name, exported):
    predictor = bert_tf.Predictor(os.path.join(exported(name, BFLOAT16), "1"))
    examples = _examples(predictor.inputs)
    assert predictor(examples) == _served(exported(name, BFLOAT16), predictor.inputs, examples)


@pytest.mark.slow
def test_a_masked_lm_fills_the_first_mask(pretrained, made_once):
    path = str(made_once("predictor-fill-mask", lambda folder: Filler(pretrained).export(str(folder))))
    texts = ["the [MASK] is a good [MASK] .", "[MASK] story", "film"]
    answers = bert_tf.Predictor(pretrained)(texts)
    assert answers == bert_tf.Predictor(path)(texts) == _served(path, ("text",), texts)
    assert list(answers[0]) == ["token", "probability"] and len(answers[0]["token"]) == 5


_WITH_CLASS = ("classification", "regression", "questions", "tagging", "choices", "reranking")  # in Transformers


@pytest.mark.slow
@pytest.mark.parametrize("name", _WITH_CLASS)
def test_a_hugging_face_model_with_a_head(name, trained, tmp_path):
    bert_tf.save(bert_tf.load(trained(name)), tmp_path / "there", "huggingface")
    ours = bert_tf.Predictor(trained(name))
    theirs = bert_tf.Predictor(tmp_path / "there", pairs=name == "regression")  # its files do not say so
    assert theirs.inputs == ours.inputs
    example = {"text": FILM, "text_a": FILM, "text_b": "a story", "question": "is it", "context": FILM,
               "choices": ["a", "b"], "query": FILM, "documents": ["a", "b"]}  # fmt: skip
    example = {key: example[key] for key in ours.inputs}
    assert theirs(example) == ours(example)


@pytest.mark.slow
def test_a_hugging_face_model_can_be_exported(trained, tmp_path):
    bert_tf.save(bert_tf.load(trained("tagging")), tmp_path / "there", "huggingface")
    export_trained(str(tmp_path / "there"), str(tmp_path / "export"))
    assert bert_tf.Predictor(tmp_path / "export")(FILM) == bert_tf.Predictor(trained("tagging"))(FILM)


@pytest.mark.slow
def test_a_sentence_transformers_folder(tmp_path):
    folder = sentence_folders.write(tiny.checkpoint(tmp_path / "model"))
    vectors = [answer["embedding"] for answer in bert_tf.Predictor(folder)(TEXTS)]
    np.testing.assert_allclose(vectors, bert_tf.SentenceEncoder(folder)(TEXTS), atol=1e-6)


def test_a_sparse_encoder():
    folder = GOLDENS / "sparse_encoder" / "bert"
    expected = json.loads((folder.parent / "expected.json").read_text(encoding="utf-8"))
    for row, answer in zip(expected["bert"], bert_tf.Predictor(folder)(expected["texts"]), strict=True):
        assert list(answer) == ["indices", "weights"] and np.count_nonzero(row) == len(answer["weights"])
        np.testing.assert_allclose(answer["weights"], -np.sort(-np.array(row))[: len(answer["weights"])], atol=1e-5)
        np.testing.assert_allclose(np.array(row)[answer["indices"]], answer["weights"], atol=1e-5)


def test_one_text_has_one_answer_and_many_keep_their_order(classify):
    one = classify(FILM)
    assert list(one) == ["label", "probabilities"] and list(one["probabilities"]) == ["bad", "good"]
    assert classify([FILM]) == classify((FILM,)) == classify({"text": FILM} for _ in range(1)) == [one]
    assert classify(FILM.encode()) == classify({"text": FILM}) == one and classify([]) == []
    alone = [classify(text) for text in TEXTS[::-1]]
    together = classify(TEXTS[::-1], batch_size=4)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose([*a["probabilities"].values()], [*b["probabilities"].values()], atol=1e-6)
    for texts in (Series(TEXTS[::-1], range(len(TEXTS))), np.array(TEXTS[::-1]), iter(TEXTS[::-1])):
        assert classify(texts, batch_size=4) == together
    assert classify("film \ud83d") == classify("film ")  # a lone surrogate is no text


def test_outputs_that_are_not_numbers_are_refused(classify, monkeypatch):
    def compute(texts):
        return {"probabilities": np.where(texts["text"] == b"music", np.nan, 0.5)[:, None]}

    monkeypatch.setattr(classify, "_model", dataclasses.replace(classify._model, compute=compute))
    with pytest.raises(ValueError, match="outputs NaN or infinity for 1 of 2 examples, the first of them example 1 "):
        classify(["a story", "music"])


@pytest.mark.slow
def test_examples_of_several_texts(predictors):
    ask = predictors("questions")
    named = {"context": FILM, "question": "is it"}
    answer = ask(("is it", FILM))
    assert answer == ask(named) == ask([("is it", FILM)])[0] == ask((named,))[0]
    assert FILM[answer["start"] : answer["end"]] == answer["answer"]
    choose = predictors("choices")
    answers = choose([(FILM, ["a", "b"]), (FILM, ("a", "b", "to")), (FILM, ["a", "b"])])
    assert [len(each["probabilities"]) for each in answers] == [2, 3, 2]
    first, _, last = ({name: value for name, value in each.items() if name != "probabilities"} for each in answers)
    assert first == last
    # Equal rows of a batch may be rounded differently.
    assert answers[0]["probabilities"] == pytest.approx(answers[2]["probabilities"], abs=1e-6)


@pytest.mark.slow
def test_four_threads(classify, trained):
    texts = [text for text, _ in tiny.texts(1000, seed=1)]
    for predictor in (classify, bert_tf.Predictor(trained("classification"))):
        expected = predictor(texts)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert list(pool.map(predictor, [texts] * 4)) == [expected] * 4


@pytest.mark.slow
def test_a_file(classify, predictors, tmp_path):
    rows = [text for text, _ in tiny.texts(200, seed=2)]
    plain, table = tmp_path / "texts.txt", tmp_path / "table.jsonl"
    plain.write_text("\n".join(rows), encoding="utf-8")
    answers = list(classify.predict_file(plain, batch_size=3))  # more than are read together
    expected = classify(rows[:96], batch_size=3) + classify(rows[96:192], batch_size=3) + classify(rows[192:])
    assert answers[:192] == expected[:192] and len(answers) == 200
    table.write_text("".join(json.dumps({"body": text}) + "\n" for text in [FILM, None, *TEXTS]), encoding="utf-8")
    answers = list(classify.predict_file(table, text_column="body"))
    assert answers[1] is None and answers[:1] + answers[2:] == classify([FILM, *TEXTS])
    table = tmp_path / "excel.csv"
    table.write_bytes(f"nr;é\n1;{FILM}\n".encode("cp1252"))
    assert list(classify.predict_file(table, text_column="é", separator=";", encoding="cp1252")) == classify([FILM])
    (tmp_path / "pairs.csv").write_text(f"context,id,q\n{FILM},1,is it\n")
    (tmp_path / "dialect.csv").write_text(f"no;text\n1;{FILM}é\n", encoding="cp1252")
    (answer,) = classify.predict_file(tmp_path / "dialect.csv", separator=";", encoding="cp1252")
    assert answer == classify(f"{FILM}é")
    with pytest.raises(ValueError, match="`separator` applies only to .csv and .tsv files; got .*texts.txt"):
        classify.predict_file(plain, separator=";")
    ask = predictors("questions")
    (answer,) = ask.predict_file(str(tmp_path / "pairs.csv"), text_column=["context", "q"])
    assert answer == ask(("is it", FILM))
    with pytest.raises(ValueError, match=r"`text_column` must name one column for each .* \(question, context\)"):
        ask.predict_file(tmp_path / "pairs.csv", text_column=0)  # at once, not when it is iterated over
    with pytest.raises(ValueError, match=r"pairs.csv:1: missing column 'text' \(`text_column`\)"):
        list(classify.predict_file(tmp_path / "pairs.csv"))


def test_batch_prediction_has_the_same_numbers(classify, exported, tmp_path):
    tiny.write_jsonl(tmp_path / "in.jsonl", [(text,) for text in TEXTS], ["text"])
    flags = {"model": exported("classification"), "input_file": tmp_path / "in.jsonl"}
    flags |= {"output_file": tmp_path / "out.jsonl", "batch_size": 4}
    done = run_cases.run_here("predict", [f"--{name}={value}" for name, value in flags.items()])
    assert done["status"] == 0, done["log"]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    for line, answer in zip(lines, classify(TEXTS, batch_size=4), strict=True):
        assert line["probabilities"] == answer["probabilities"]


@functools.cache
def _frame():
    return DataFrame({"text": ["a"], "more": ["b"]})


@pytest.mark.parametrize(
    "name, texts, message",
    [
        ("classification", 5, "`texts` must be a string, or a list or other iterable of texts; got 5."),
        ("classification", None, "`texts` must be a string, or a list or other iterable of texts; got None."),
        ("classification", ["a", None], "`texts` must not have missing texts; got None at position 1"),
        ("classification", ["a", 5], "An item must be a string, a tuple of strings or a dictionary; got 5."),
        ("classification", {"a", "b"}, "got a set, which has no order"),
        ("classification", {"words": "a"}, "a string, or a dictionary with the key 'text'; got {'words': 'a'}."),
        ("classification", [("a", "b")], "Each example must be a string, or a dictionary with the key 'text'; got ('a"),
        ("classification", {"text": ["a"]}, "`text` must be strings; got list at position 0"),
        ("classification", "frame", "got a DataFrame of text, more; choose one of them"),
        ("questions", "a", "Each example must have the texts question, context, in a tuple in this order or"),
        ("questions", ("a", "b", "c"), "a dictionary with these keys; got ('a', 'b', 'c')."),
        ("questions", [("a", None)], "`context` must not have missing texts;"),
        ("choices", ("a", "b"), "`choices` must be several texts, such as a list; got one text, 'b'"),
        ("choices", [("a", ["b"]), ("a", [])], "`choices` must not be empty; got an empty list at position 1."),
    ],
)
def test_bad_examples(name, texts, message):
    """Each is refused before anything is computed."""
    inputs = {"classification": ("text",), "questions": ("question", "context"), "choices": ("context", "choices")}
    predictor = bert_tf.Predictor.__new__(bert_tf.Predictor)
    read = tuple(TextInput(each, each == "choices") for each in inputs[name])
    predictor._take(TextModel("model", read, None, frozenset(), TokenCountLog("model")))
    with pytest.raises(ValueError) as error:
        predictor(_frame() if texts == "frame" else texts)
    assert message in str(error.value)


@pytest.mark.slow
def test_bad_settings_and_folders(classify, exported, trained, tmp_path):
    encoder = str(tiny.checkpoint(tmp_path / "encoder"))
    for name in ("empty", "gliner"):
        (tmp_path / name).mkdir()
    (tmp_path / "gliner" / "gliner_config.json").write_text("{}", encoding="utf-8")
    for call, message in [
        (lambda: classify("a", batch_size=0), "`batch_size` must be a positive integer; got 0."),
        (lambda: classify("a", batch_size="8"), "`batch_size` must be a positive integer"),
        (lambda: bert_tf.Predictor(tmp_path / "none"), "Checkpoint not found: there is no directory"),
        (lambda: bert_tf.Predictor("bert-base-uncased"), "is the name of a published checkpoint"),
        (lambda: bert_tf.Predictor(tmp_path / "empty"), "`path` must be a directory with saved_model.pb, with numbered "
         "versions of it, or with a trained model (bert_config.json or config.json); got"),
        (lambda: bert_tf.Predictor(tmp_path / "gliner"), "GLiNER models, which find entities of any named type, are "
         "not supported; got"),
        (lambda: bert_tf.Predictor(os.path.dirname(exported("questions"))), "which has one directory per model"),
        (lambda: bert_tf.Predictor(encoder), "encoder does not define a task: it has no task.json"),
        (lambda: bert_tf.Predictor(trained("tagging"), pairs=True), "`pairs` is only for Hugging Face text "
         "classifiers."),
        (lambda: bert_tf.Predictor(exported("tagging"), pairs=True), "takes text; remove it."),
        (lambda: bert_tf.Predictor(trained("tagging"), signature="ids"), "`signature` requires an export, and"),
        (lambda: bert_tf.Predictor(exported("tagging"), signature="ids"), "`signature` must take texts, strings"),
    ]:  # fmt: skip
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)


def test_inputs_without_a_customary_order_are_named(tmp_path):
    class Joined(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, n) for n in ("left", "right")])
        def call(self, left, right):
            tf.debugging.assert_none_equal(left, "bad", message="it is bad")
            return {"joined": left + right}

    module = Joined()
    tf.saved_model.save(module, str(tmp_path / "1"), {"serving_default": module.call})
    predictor = bert_tf.Predictor(tmp_path)
    assert predictor({"right": "b", "left": "a"}) == {"joined": "ab"}
    with pytest.raises(ValueError, match="`texts` must be dictionaries with the texts left, right, because the order"):
        predictor(("a", "b"))
    with pytest.raises(ValueError, match=r"1 failed on 1 row from 1 on: .*it is bad"):
        predictor([{"left": "a", "right": ""}, {"left": "bad", "right": ""}], batch_size=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", _some_slow(("classification",), [*models.TASKS, "multi_label"]))
def test_predict_writes_the_same_for_a_trained_model_as_for_its_export(name, exported, trained, tmp_path):
    inputs = bert_tf.Predictor(exported(name)).inputs
    lines = [dict(zip(inputs, (each,) if isinstance(each, str) else each, strict=True)) for each in _examples(inputs)]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, lines)))
    written = []
    for path in (exported(name), trained(name)):
        files = [f"--input_file={tmp_path / 'table.jsonl'}", f"--output_file={tmp_path / 'out.jsonl'}"]
        flags = [f"--model={path}", f"--text_column={','.join(inputs)}", "--batch_size=4"]
        done = run_cases.run_here("predict", [*files, *flags])
        assert done["status"] == 0, done["log"]
        written.append([json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()])
    assert len(written[0]) == len(TEXTS) and written[0] == written[1]


def test_predict_refuses_a_signature_of_a_trained_model(trained, tmp_path):
    flags = ["--signature=ids", f"--input_file={__file__}", f"--output_file={tmp_path / 'out.jsonl'}"]
    done = run_cases.run_here("predict", [f"--model={trained('classification')}", *flags])
    assert done["status"] == 1 and "--signature requires an export, and " in done["log"]
