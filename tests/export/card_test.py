"""The model card: what the files of a run say, and nothing where they say nothing."""

import json
import types

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

import bert_tf
from bert_tf.export.card import RunFacts, model_card, read_run
from bert_tf.export.export_options import ExportOptions
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tokenization.wordpiece import Tokenizer
from tests import tiny

START = {
    "kind": "start", "step": 0, "time": "2026-01-01T00:00:00+00:00", "from": "/home/me/models/minilm/model.safetensors",
    "flags": {"learning_rate": "3e-05", "train_file": "/data/train.tsv"}, "versions": {"python": "3.12.1"},
    "data": {"train": {"file": "/data/train.tsv", "rows": 6920}, "dev": {"file": "/data/dev.tsv", "rows": 872}},
}  # fmt: skip
TRAIN = [{"kind": "train", "step": step, "time": f"2026-01-01T00:0{step}:00+00:00", "loss": 1.0} for step in (1, 2, 3)]
EVAL = {"kind": "eval", "step": 2, "time": "2026-01-01T00:09:00+00:00", "accuracy": 0.9375, "loss": 0.25}
SCORES = "eval_accuracy = 0.9375\neval_loss = 0.25\nglobal_step = 2\n"


def _run(folder, lines, scores=SCORES):
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if scores:
        (folder / "eval_results.txt").write_text(scores)
    return read_run(str(folder), str(folder / "model.ckpt-2.index"))


def test_a_run_says_what_it_did(tmp_path):
    facts = _run(tmp_path, [START, *TRAIN, EVAL])
    assert (facts.checkpoint, facts.step, facts.origin) == ("model.ckpt-2", 2, "minilm/model.safetensors")
    assert facts.trained == "2026-01-01T00:02:00+00:00"  # the third step is not in the exported weights
    assert facts.flags == START["flags"] and facts.versions == START["versions"] and facts.data == START["data"]
    assert facts.scores == {"eval_accuracy": 0.9375, "eval_loss": 0.25} and facts.scored_step == 2
    assert facts.scored_data == {"dev": START["data"]["dev"]}


def test_scores_are_of_a_file_only_if_the_history_has_them_too(tmp_path):
    assert _run(tmp_path, [START, *TRAIN, EVAL | {"accuracy": 0.5}]).scored_data == {}
    assert _run(tmp_path, [START, *TRAIN]).scored_data == {}


def test_where_there_is_no_run_nothing_is_said(tmp_path):
    assert read_run(str(tmp_path), "uncased/bert_model.ckpt") == RunFacts("bert_model.ckpt")
    old = {name: value for name, value in START.items() if name != "data"} | {"from": None}
    facts = _run(tmp_path, [old], scores=None)
    assert facts.data == {} and facts.origin is None and facts.scores == {} and facts.trained is None


def test_a_broken_file_does_not_stop_an_export(tmp_path, caplog):
    (tmp_path / "history.jsonl").write_text("no JSON\n")
    (tmp_path / "eval_results.txt").write_text("eval_accuracy = high\n")
    assert read_run(str(tmp_path), "model.ckpt-2") == RunFacts("model.ckpt-2", 2)
    assert caplog.text.count("The model card omits it.") == 2


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """card(facts) -> the card of a tiny classifier."""
    folder = tmp_path_factory.mktemp("card")
    Tokenizer(tiny.VOCAB).save(folder)
    task = ClassificationTask(tiny.config(), 2, labels=["no|t", "<b>good</b>"])
    weights = [tf.TensorSpec([512, 1024], tf.float32), tf.TensorSpec([], tf.int32)]
    served = types.SimpleNamespace(
        task=task, tokenizer=Tokenizer.from_directory(folder), weight_specs=weights, num_weights=512 * 1024 + 1,
        text_inputs=("text",), max_seq_length=16, is_calibrated=False, options=ExportOptions(export_for="cpu"),
    )  # fmt: skip
    signature = meta_graph_pb2.SignatureDef()
    signature.inputs["text"].dtype = tf.string.as_datatype_enum
    signature.inputs["text"].tensor_shape.dim.add(size=-1)
    signatures = {"serving_default": signature, "__saved_model_init_op": meta_graph_pb2.SignatureDef()}
    return lambda facts: model_card(served, signatures, task.to_dict(), facts)


def test_a_card_says_what_is_known(card, tmp_path):
    text = card(_run(tmp_path, [START, *TRAIN, EVAL]))
    rows = [
        "| task | classification |",
        "| longest sequence | 16 tokens |",
        "| numbers | float32, int32 |",
        "| weights | 524,289 |",
        "| size of the weights | 2.0 MiB |",
        "| exported for | cpu |",
        "- no\\|t\n- &lt;b>good&lt;/b>",
        "| started from | minilm/model.safetensors |",
        "| examples, train | train.tsv, 6,920 rows |",
        "--learning_rate=3e-05\n--train_file=/data/train.tsv",
        "| eval_accuracy | 0.9375 |",
        "Evaluated on dev.tsv, 872 rows.",
        "| `serving_default` | input | `text` | string | [?] |",
        f"| exported by | bert_tf {bert_tf.__version__}, tensorflow {tf.__version__}",
        "| trained by | python 3.12.1 |",
        "- Only the first 16 tokens",
    ]
    assert not [row for row in rows if row not in text], text
    assert "__saved" not in text and "None" not in text and "/home" not in text
    assert card(_run(tmp_path, [START, *TRAIN, EVAL])) == text


def test_scores_of_the_export_stand_beside_the_others(card):
    scored = {"scores": {"eval_f1": 0.5}, "scored_step": 9, "scored_precision": "mixed_bfloat16"}
    text = card(RunFacts("model.ckpt-9", 9, **scored, export_scores={"eval_f1": 0.25}))
    assert "| eval_f1 | 0.5 |\n| eval_f1, in float32 as exported | 0.25 |" in text
    assert "The metrics were computed in mixed_bfloat16; this export is in float32." in text
    assert "not measured" not in text


def test_a_card_leaves_out_what_is_not(card):
    text = card(RunFacts())
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Model", "## Labels (2)", "## Signatures", "## Versions", "## Known limits",
    ]  # fmt: skip
    assert "trained by" not in text and "None" not in text


def test_scores_of_other_weights_are_called_so(card):
    text = card(RunFacts("model.ckpt-9", 9, scores={"eval_accuracy": 0.5}, scored_step=7))
    assert "The evaluated examples were not recorded." in text
    assert "These are the metrics of step 7, not of the exported weights." in text


def test_the_precision_of_the_scores_is_said(card, tmp_path):
    scored = {"scores": {"eval_accuracy": 0.5}, "scored_step": 9}
    for precision, words in (
        (None, "The precision of the evaluation was not recorded."),
        ("float32", "The metrics were computed in float32, the precision of this export."),
        ("mixed_bfloat16", "The metrics were computed in mixed_bfloat16; this export is in float32. Its own metrics "
         "were not measured."),
    ):  # fmt: skip
        assert words in card(RunFacts("model.ckpt-9", 9, scored_precision=precision, **scored))
    (tmp_path / "eval_files.json").write_text('{"": {"precision": "mixed_bfloat16", "files": []}}')
    assert "The metrics were computed in mixed_bfloat16;" in card(_run(tmp_path, [START, *TRAIN, EVAL]))
    assert "precision" not in card(RunFacts("model.ckpt-9", 9))
