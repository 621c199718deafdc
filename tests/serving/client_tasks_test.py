"""The client and the models that do not classify: questions, asked over REST too, and regression."""

import json
import urllib.request

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.export.saved_model import export
from bert_tf.export.serving_module import ServingModule
from bert_tf.serving.client.client import Client
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import tiny
from tests.serving.client_test import run
from tests.serving.models import serve_quickly

QUESTIONS = ["who is it", "谁 😀"]
CONTEXTS = ["the 😀 people . a film 🎬 of music", "I😀good喜欢 👩‍👩‍👧 the fi\u0301lm"]
ITEMS = [{"question": q, "context": c} for q, c in zip(QUESTIONS, CONTEXTS, strict=True)]
OUTPUTS = ["answer", "start", "end", "score", "null_score"]


class FirstWord(tf.Module):
    """Has the signature of a model for questions: the answer is the first word of the context."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name) for name in ("question", "context")])
    def answer(self, question, context):
        word = tf.strings.split(context, " ")[:, :1].to_tensor()[:, 0]
        score = tf.cast(tf.strings.length(question), tf.float32)
        end = tf.strings.length(word, "UTF8_CHAR")
        return {"answer": word, "start": tf.zeros_like(end), "end": end, "score": score, "null_score": -score}


def _export_squad(base):
    """Exports a model for questions with random weights."""
    WordPieceTokenizer(tiny.VOCAB).save(base)
    config = tiny.config()
    task = QuestionAnsweringTask(config, max_answer_length=6, max_query_length=5, doc_stride=8)
    keras.utils.set_random_seed(1)
    model, tokenizer = task.build_model(), WordPieceTokenizer.from_directory(base)
    export(ServingModule(task, model, tokenizer, ("question", "context"), 24), base / "export")
    return base / "export"


@pytest.fixture(scope="module", params=["first words", pytest.param("BERT", marks=pytest.mark.slow)])
def squad(request, tmp_path_factory):
    """A server of a model for questions, under the name "squad"."""
    base = tmp_path_factory.mktemp("squad")
    if request.param == "BERT":
        base = _export_squad(base)
    else:
        module = FirstWord()
        tf.saved_model.save(module, str(base / "1"), {"serving_default": module.answer})
    with serve_quickly(base, "squad") as server:
        yield server


class Alike(tf.Module):
    """Has the signature of a regression of pairs: how many bytes longer the first text is, in tenths."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")])
    def compare(self, text_a, text_b):
        return {"score": tf.cast(tf.strings.length(text_a) - tf.strings.length(text_b), tf.float32) / 10}


class Named(tf.Module):
    """Has inputs that nobody gives in an order that is known."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name) for name in ("claim", "source")])
    def join(self, claim, source):
        return {"joined": claim + "|" + source}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A server of it, under the name "named"."""
    base = tmp_path_factory.mktemp("named")
    module = Named()
    tf.saved_model.save(module, str(base / "1"), {"serving_default": module.join})
    with serve_quickly(base, "named") as server:
        yield server


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """A server of it, under the name "alike"."""
    base = tmp_path_factory.mktemp("alike")
    module = Alike()
    tf.saved_model.save(module, str(base / "1"), {"serving_default": module.compare})
    with serve_quickly(base, "alike") as server:
        yield server


def _check(found):
    """Checks an answer to each of ITEMS."""
    for context, answer in zip(CONTEXTS, found, strict=True):
        assert sorted(answer) == sorted(OUTPUTS)
        assert answer["answer"] and context[answer["start"] : answer["end"]] == answer["answer"]


def test_a_question_has_an_answer_in_its_context(squad):
    with Client(f"localhost:{squad.port}", "squad", timeout=120) as client:
        answers = client.ask({"question": QUESTIONS, "context": CONTEXTS})
        (alone,) = client.ask({"context": CONTEXTS[1:], "question": QUESTIONS[1:]})
        scores = client.predict({"question": QUESTIONS, "context": CONTEXTS})["score"]
    _check(answers)
    assert list(answers[0]) == OUTPUTS
    np.testing.assert_allclose([answer["score"] for answer in answers], scores, rtol=1e-6)
    assert [alone[name] for name in OUTPUTS[:3]] == [answers[1][name] for name in OUTPUTS[:3]]


def test_questions_over_rest(squad):
    url = f"http://localhost:{squad.rest_port}/v1/models/squad:predict"
    request = urllib.request.Request(url, json.dumps({"instances": ITEMS}).encode())
    with urllib.request.urlopen(request, timeout=60) as response:
        _check(json.loads(response.read())["predictions"])


def test_the_program_asks_questions(squad):
    flags = ("--model_name=squad", "--inputs=question,context")
    done = run(squad, *flags, *(text for item in ITEMS for text in item.values()))
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert [{name: each.pop(name) for name in ITEMS[0]} for each in printed] == ITEMS, done.stderr
    _check(printed)
    lines = "".join("\t".join(item.values()) + "\n" for item in ITEMS)
    assert run(squad, *flags, text=lines).stdout == done.stdout


def test_texts_without_names_need_inputs_whose_order_is_known(named, tmp_path):
    done = run(named, "--model_name=named", "s", "c")
    message = "--inputs is required: the inputs of this model are claim, source"
    assert done.returncode == 1 and message in done.stderr and not done.stdout
    done = run(named, "--model_name=named", "--inputs=source,claim", "s", "c")
    assert json.loads(done.stdout) == {"source": "s", "claim": "c", "joined": "c|s"}
    with Client(f"localhost:{named.port}", "named") as client:
        assert [row["joined"] for row in client.stream([{"source": "s", "claim": "c"}])] == ["c|s"]
        with pytest.raises(ValueError, match="must be a dictionary with the texts claim, source"):
            list(client.stream([("s", "c")]))
    texts = tmp_path / "texts.txt"
    texts.write_text("s\tc\n")
    flags = ("--model_name=named", f"--input_file={texts}", "--concurrency=1", "--seconds=0.1", "--warmup_seconds=0")
    assert message in run(named, *flags, program="load_test").stderr
    assert run(named, *flags, "--inputs=source,claim", program="load_test").stdout.startswith("1 client: ")
    wrong = "--inputs must be the inputs of the model, claim, source; got a,b."
    assert wrong in run(named, *flags, "--inputs=a,b", program="load_test").stderr


def test_a_regression_gives_a_score(alike):
    with Client(f"localhost:{alike.port}", "alike") as client:
        answers = client.ask({"text_a": ["abc", "", "a"], "text_b": ["", "aé", "b"]})
    assert answers == [{"score": 0.3}, {"score": -0.3}, {"score": 0.0}]
    printed = run(alike, "--model_name=alike", "abc", "").stdout  # the model says which texts it takes
    assert printed == '{"text_a": "abc", "text_b": "", "score": 0.3}\n'


def test_a_model_that_does_not_classify(alike):
    message = "lacks label, labels, probabilities and has score"
    with Client(f"localhost:{alike.port}", "alike") as client, pytest.raises(ValueError, match=message):
        client.classify(["x"], ["y"])


@pytest.mark.parametrize(
    "model, inputs, message",
    [
        ("squad", ["text"], "Model 'squad' requires the inputs question, context; got text. Name them"),
        ("alike", ["question", "context"], "requires the inputs text_a, text_b; got question, context."),
        ("alike", [], "Inputs must be lists with the same number of texts; got none."),
    ],
)
def test_inputs_of_another_model(squad, alike, model, inputs, message):
    port = {"squad": squad, "alike": alike}[model].port
    with Client(f"localhost:{port}", model) as client, pytest.raises(ValueError, match=message.replace(".", r"\.")):
        client.ask({name: ["x"] for name in inputs})
