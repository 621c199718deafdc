"""Zero-shot classification: its answers by hand and beside torch's pipeline, its exports, and what it refuses."""

import json
import pathlib
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.tf1 import write_tf1
from bert_tf.export.conversion.convert import convert_model
from bert_tf.export.export_options import ExportOptions
from bert_tf.inference.zero_shot import ZeroShot
from bert_tf.serving.exports import find_export, open_export
from bert_tf.serving.server.protocols.token_counting import count_read_tokens
from bert_tf.serving.server.request_context import INTERNAL
from bert_tf.serving.server.sequences import Sequences
from bert_tf.serving.verification import verify
from bert_tf.tasks.zero_shot import ZeroShotTask, find_entailment
from bert_tf.tokenization.fast_tokenizer import load_fast_tokenizer
from tests import other_envs, tiny
from tests.export.models import LENGTH, NLI, load_trained, write_trained
from tests.run_cases import run_here

LABELS, TEMPLATE = ["great", "bad", "film"], "it is {} ."
TEXTS = ["the film is a warm story", "a bad film", "music", " ".join(["the film is warm"] * 9)]
PIPELINE = """
import json, sys, transformers
pipe = transformers.pipeline("zero-shot-classification", sys.argv[1], device="cpu")
given = json.loads(sys.argv[2])
pipe.tokenizer.model_max_length = given.pop("length")
found = [pipe(text, given["labels"], hypothesis_template=given["template"], multi_label=several)
         for several in (False, True) for text in given["texts"]]
print(json.dumps([dict(zip(each["labels"], each["scores"])) for each in found]))
"""


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A tiny NLI model whose probabilities differ from text to text, so that errors show."""
    folder = tmp_path_factory.mktemp("nli")
    write_trained(folder, "nli")
    _, model, _ = load_trained(folder)
    for variable in model.variables:
        if variable.path.startswith("classifier/output_weights"):
            variable.assign(100 * variable)
    write_tf1(str(folder / "model.ckpt-7"), model.variables)
    return str(folder)


@pytest.fixture(scope="module")
def made():
    """made(model, labels, template, multi_label, length) -> a `ZeroShot`, one for the same arguments."""
    kept = {}

    def make(model, labels, template, multi_label=False, max_seq_length=None):
        key = str((model, labels, template, multi_label, max_seq_length))
        if key not in kept:
            kept[key] = ZeroShot(model, labels, template, multi_label, max_seq_length)
        return kept[key]

    return make


@pytest.fixture(scope="module")
def zero_shot(made, nli):
    return made(nli, LABELS, TEMPLATE)


@pytest.fixture(scope="module")
def answers(zero_shot):
    return zero_shot(TEXTS)


@pytest.fixture
def said_by(made, monkeypatch):
    """Returns a function from arguments to the lines that the command prints; the test fails if it does."""
    monkeypatch.setattr("bert_tf.inference.zero_shot.ZeroShot", made)

    def run(*arguments):
        done = run_here("zero_shot", arguments)
        assert not done["status"], done["log"]
        return done["log"].splitlines()

    return run


@pytest.fixture(scope="module")
def exported_nli(nli, made, tmp_path_factory):
    """The folder of an export that the command has made."""
    folder = tmp_path_factory.mktemp("zero_shot") / "export"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_tf.inference.zero_shot.ZeroShot", made)
        done = run_here("zero_shot", [*_common(nli), f"--export_dir={folder}"])
    assert not done["status"], done["log"]
    return folder


def _common(nli):
    return [f"--model={nli}", f"--labels={', '.join(LABELS)}", f"--template={TEMPLATE}"]


def probabilities(answers):
    return np.array([[each["probabilities"][label] for label in LABELS] for each in answers])


def logits_of(model, tokenizer, text):
    """Returns the logits of a text with the sentence of each label, [L, 3]."""
    sentences = [TEMPLATE.replace("{}", label) for label in LABELS]
    return model(tokenizer([text] * len(sentences), sentences, max_seq_length=LENGTH)).numpy().astype(np.float64)


def softmax(logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def test_the_probabilities_are_of_entailment(nli, answers, made):
    one, several = answers, made(nli, LABELS, TEMPLATE, True)(TEXTS)
    _, model, tokenizer = load_trained(nli)
    for number, text in enumerate(TEXTS):
        logits = logits_of(model, tokenizer, text)
        entailed = softmax(logits[:, NLI.index("entailment")])
        np.testing.assert_allclose(probabilities(one)[number], entailed, atol=1e-5)
        alone = softmax(logits[:, [NLI.index("contradiction"), NLI.index("entailment")]])[:, 1]
        np.testing.assert_allclose(probabilities(several)[number], alone, atol=1e-5)
        assert one[number]["label"] == LABELS[entailed.argmax()]
        assert several[number]["label"] == LABELS[alone.argmax()]
        above = [label for label, share in zip(LABELS, alone, strict=True) if share > 0.5]
        assert several[number]["predicted"] == above
    assert np.ptp(probabilities(one), axis=0).max() > 0.01
    alone = ZeroShotTask(tiny.config(), NLI, ["film"], TEMPLATE)
    film = logits_of(model, tokenizer, TEXTS[0])[None, LABELS.index("film") :][:, :1].astype(np.float32)
    assert alone.postprocess(film)["probabilities"].numpy() == pytest.approx(several[0]["probabilities"]["film"], 1e-5)


def test_only_the_text_is_truncated(nli, zero_shot):
    tokenizer = load_description([nli]).tokenizer
    cut, _ = zero_shot.task.preprocess(tokenizer, [tf.constant(["the film is warm and the music is a story"])], 12)
    assert cut["input_ids"].shape == (1, 3, 12)
    sentences = tokenizer.tokenize(tf.constant(zero_shot.task.hypotheses)).to_list()
    for row, sentence in zip(cut["input_ids"][0].numpy().tolist(), sentences, strict=True):
        assert row[-1 - len(sentence) : -1] == sentence


@pytest.mark.parametrize(("labels", "places"), [
    (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], (2, 0)),
    (["entailment", "neutral", "contradiction"], (0, 2)),
    (["neutral", "entailment", "contradiction"], (1, 2)),  # Transformers takes neutral for contradiction
    (["entailment", "not_entailment"], (0, 1)),
    (["entailed", "unknown"], (0, None)),
])  # fmt: skip
def test_what_means_entailment_is_known_by_name(labels, places):
    assert find_entailment(labels) == places


@pytest.mark.parametrize(("change", "message"), [
    ({"labels": "great"}, "`labels` must be a list of texts"),
    ({"labels": None}, "`labels` must be a list of texts; got None"),
    ({"labels": []}, "non-empty texts; got an empty list"),
    ({"labels": ["a", "b", "a"]}, "each label once; got 'a' twice; remove one"),
    ({"labels": ["great", " "]}, "non-empty texts; got ' '"),
    ({"labels": ["great film " * 5, "bad"]}, r"half of `max_seq_length=16`; got 'great film .* of at most 6; shorten"),
    ({"template": "this is great"}, r"contain \{\} exactly once, in place of the label; got 'this is great'; write"),
    ({"template": "{} or {}"}, r"contain \{\} exactly once"),
    *(({"max_seq_length": length}, "max_seq_length") for length in (99, 0, -1)),
])  # fmt: skip
def test_what_is_refused(nli, change, message):
    with pytest.raises(ValueError, match=message):
        ZeroShot(nli, **{"labels": LABELS, "template": TEMPLATE, **change})


@pytest.mark.parametrize(("name", "reason"), [
    ("classification", "one label that starts with `entail`; got bad, good"),
    ("regression", "its problem is regression"),
    ("windows", "it has windows"),
    ("tagging", "its task is tagging"),
])  # fmt: skip
def test_a_model_that_does_not_compare_texts_is_refused(name, reason, trained):
    with pytest.raises(ValueError, match=reason):
        ZeroShot(trained(name), LABELS, TEMPLATE)


def test_a_model_whose_contradiction_is_unknown_predicts_one_label(nli, tmp_path):
    shutil.copytree(nli, tmp_path, dirs_exist_ok=True)
    for name in ("labels.txt", "task.json", "bert_config.json"):
        if (file := tmp_path / name).exists():
            file.write_text(file.read_text().replace("contradiction", "unclear"))
    assert ZeroShot(tmp_path, LABELS, TEMPLATE)("a film")["label"] in LABELS
    with pytest.raises(ValueError, match="`multi_label`, or a single label, requires a model with a label for contr"):
        ZeroShot(tmp_path, LABELS, TEMPLATE, multi_label=True)


def _check_export(folder, answers):
    """Checks an export with `LABELS` and `TEMPLATE`; `answers` are what the model answers to `TEXTS`."""
    found = bert_tf.Predictor(folder)(TEXTS)
    np.testing.assert_allclose(probabilities(found), probabilities(answers), atol=1e-5)
    assert [each["label"] for each in found] == [each["label"] for each in answers]
    extra = pathlib.Path(find_export(folder), "assets.extra")
    said = json.loads((extra / "task.json").read_text())
    assert said == {"task": "zero_shot", "nli_labels": NLI, "labels": LABELS, "template": TEMPLATE,
                    "multi_label": False}  # fmt: skip
    assert TEMPLATE in (extra / "MODEL_CARD.md").read_text()


def test_an_export_answers_the_same(exported_nli, answers):
    _check_export(str(exported_nli), answers)
    with pytest.raises(ValueError, match="`model` must be a trained model; got .*, an export"):
        ZeroShot(exported_nli, LABELS, TEMPLATE)


@pytest.mark.slow
@pytest.mark.parametrize("options", [ExportOptions(), *(ExportOptions("float32", name) for name in ("cpu", "gpu"))])
def test_an_export_for_any_runtime_passes_its_verification(zero_shot, answers, options, tmp_path):
    zero_shot.export(tmp_path, options)
    _check_export(str(tmp_path), answers)
    assert [verdict for verdict in verify(str(tmp_path)) if verdict.problems] == []


def test_the_server_counts_a_text_once_per_label(nli, exported_nli):
    sequences, text = open_export(find_export(str(exported_nli))).sequences, {"text": np.array([b"a film"] * 2, object)}
    assert sequences.per_text == len(LABELS) and sequences.added == 4  # "it is great ."
    one = Sequences(sequences.positions, sequences.text_tokens)
    count, alone = (each._lengths(text)[0] for each in (sequences, one))
    assert count == len(LABELS) * (alone + 4)
    version = types.SimpleNamespace(model=types.SimpleNamespace(sequences=sequences, read_tokenizer=lambda: tokenizer))
    tokenizer, most = load_fast_tokenizer(load_description([nli]).tokenizer), LENGTH - 3 - 4
    read = count_read_tokens(version, {"text": ["film " * most, "film " * (most + 1)]}, INTERNAL)
    assert (read.sequences, read.truncated) == (2, 1)
    assert max(sequences._weights(text)) >= len(LABELS) * max(one._weights(text))


def test_a_batch_is_of_pairs(zero_shot, monkeypatch):
    sizes = []
    batches = type(zero_shot._model).batches
    monkeypatch.setattr(type(zero_shot._model), "batches",
                        lambda self, columns, size: (sizes.append(size), batches(self, columns, size))[1])  # fmt: skip
    zero_shot(TEXTS, batch_size=7)
    zero_shot(TEXTS, batch_size=1)
    assert sizes == [2, 1]


def test_other_runtimes_are_refused(zero_shot, tmp_path):
    with pytest.raises(ValueError, match="`export_for` of zero-shot classification must be one of portable, cpu, gpu"):
        zero_shot.export(tmp_path, ExportOptions("float32", "litert"))


def test_the_command(nli, answers, said_by, exported_nli, tmp_path):
    common, wanted = _common(nli), answers
    lines = [json.loads(line) for line in said_by(*common, "--json", *TEXTS) if line.startswith("{")]
    assert [line["text"] for line in lines] == TEXTS
    np.testing.assert_allclose(probabilities(lines), probabilities(wanted), atol=1e-5)
    file = tmp_path / "texts.txt"
    file.write_text(f"{TEXTS[1]}\n")
    said = said_by(*common, f"--input_file={file}")
    ranked = said[said.index(TEXTS[1]) + 1 :][: len(LABELS)]
    assert [line.split()[1] for line in ranked] == sorted(LABELS, key=lambda label: -wanted[1]["probabilities"][label])
    assert (exported_nli / "1" / "saved_model.pb").exists()
    for more, message in (
        (["--export_dir=a", "a film"], "--export_dir cannot be combined with texts"),
        (["--labels=a,,b", "a film"], "non-empty texts; got ''"),
        (["--export_for=cpu", "a film"], "--export_for requires --export_dir"),
        ([f"--export_dir={tmp_path}/other", "--json"], "cannot be combined"),
    ):
        done = run_here("zero_shot", [*common, *more])
        assert done["status"] and message in done["log"]


@pytest.mark.slow
def test_the_probabilities_are_those_of_torch(nli, tmp_path):
    """Of Transformers' pipeline, in which only the text is truncated, too."""
    convert_model(nli, tmp_path / "torch", "huggingface")
    given = json.dumps({"labels": LABELS, "template": TEMPLATE, "texts": TEXTS, "length": LENGTH})
    theirs = json.loads(other_envs.run(other_envs.torch_python(), PIPELINE, tmp_path / "torch", given))
    here = tmp_path / "here"
    shutil.copytree(tmp_path / "torch", here)
    for folder in (nli, here):
        ours = [each for several in (False, True)
                for each in ZeroShot(folder, LABELS, TEMPLATE, several, LENGTH)(TEXTS)]  # fmt: skip
        np.testing.assert_allclose(probabilities(ours), [[each[label] for label in LABELS] for each in theirs],
                                   atol=1e-5)  # fmt: skip
