"""The model card: what the files of a run say, and nothing where they say nothing."""

import json
import types

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

import bert_tf
from bert_tf.evaluation.label_results import LabelResult
from bert_tf.export.card import model_card
from bert_tf.export.export_options import ExportOptions
from bert_tf.export.run_facts import RunFacts, read_run
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.training.scored_files import Evaluated, FileScores
from tests import tiny

START = {
    "kind": "start", "step": 0, "time": "2026-01-01T00:00:00+00:00", "from": "/home/me/models/minilm/model.safetensors",
    "flags": {"learning_rate": "3e-05", "train_file": "/data/train.tsv"}, "versions": {"python": "3.12.1"},
    "data": {"train": {"file": "/data/train.tsv", "rows": 6920, "truncated": 0.125, "unknown": 0.004,
                       "unknown_texts": 0.02},
             "dev": {"file": "/data/dev.tsv", "rows": 872}},
}  # fmt: skip
TRAIN = [{"kind": "train", "step": step, "time": f"2026-01-01T00:0{step}:00+00:00", "loss": 1.0} for step in (1, 2, 3)]
SCORES = "eval_accuracy = 0.9375\neval_loss = 0.25\nglobal_step = 2\n"
FILES = {"": {"precision": "float32", "step": 2, "files": [], "data": {"dev": START["data"]["dev"]}}}


def _run(folder, lines, scores=SCORES, files=FILES):
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if scores:
        (folder / "eval_results.txt").write_text(scores)
        (folder / "eval_files.json").write_text(json.dumps(files))
    return read_run(str(folder), str(folder / "model.ckpt-2.index"))


def _scored(scores, step=9, precision=None, suffix="", **evaluated):
    return FileScores(suffix, scores, step, precision, Evaluated(**evaluated))


def test_a_run_says_what_it_did(tmp_path):
    facts = _run(tmp_path, [START, *TRAIN])
    assert (facts.checkpoint, facts.step, facts.origin) == ("model.ckpt-2", 2, "minilm/model.safetensors")
    assert facts.trained == "2026-01-01T00:02:00+00:00"  # the third step is not in the exported weights
    assert facts.flags == START["flags"] and facts.versions == START["versions"] and facts.data == START["data"]
    (scored,) = facts.evaluations
    assert scored.scores == {"eval_accuracy": 0.9375, "eval_loss": 0.25} and scored.step == 2
    assert scored.evaluated.data == {"dev": START["data"]["dev"]}


def test_where_there_is_no_run_nothing_is_said(tmp_path):
    assert read_run(str(tmp_path), "uncased/bert_model.ckpt") == RunFacts("bert_model.ckpt")
    old = {name: value for name, value in START.items() if name != "data"} | {"from": None}
    facts = _run(tmp_path, [old], scores=None)
    assert facts.data == {} and facts.origin is None and facts.evaluations == () and facts.trained is None


def test_a_broken_file_does_not_stop_an_export(tmp_path, caplog):
    (tmp_path / "history.jsonl").write_text("no JSON\n")
    (tmp_path / "eval_results.txt").write_text("eval_accuracy = high\n")
    assert read_run(str(tmp_path), "model.ckpt-2") == RunFacts("model.ckpt-2", 2)
    assert caplog.text.count("The model card omits it.") == 2


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    """card(facts) -> the card of a tiny classifier; card(facts, task): of another task."""
    folder = tmp_path_factory.mktemp("card")
    WordPieceTokenizer(tiny.VOCAB).save(folder)
    usual = ClassificationTask(tiny.config(), 2, labels=["no|t", "<b>good</b>"])
    weights = [tf.TensorSpec([512, 1024], tf.float32), tf.TensorSpec([], tf.int32)]
    served = types.SimpleNamespace(
        tokenizer=WordPieceTokenizer.from_directory(folder), weight_specs=weights, num_weights=512 * 1024 + 1,
        text_inputs=("text",), max_seq_length=16, is_calibrated=False, options=ExportOptions(export_for="cpu"),
    )  # fmt: skip
    signature = meta_graph_pb2.SignatureDef()
    signature.inputs["text"].dtype = tf.string.as_datatype_enum
    signature.inputs["text"].tensor_shape.dim.add(size=-1)
    signatures = {"serving_default": signature, "__saved_model_init_op": meta_graph_pb2.SignatureDef()}

    def write(facts, task=usual):
        return model_card(types.SimpleNamespace(task=task, **vars(served)), signatures, task.to_dict(), facts)

    return write


def test_a_card_says_what_is_known(card, tmp_path):
    text = card(_run(tmp_path, [START, *TRAIN]))
    rows = [
        "| task | classification |",
        "| longest sequence | 16 tokens |",
        "| numbers | float32, int32 |",
        "| weights | 524,289 |",
        "| size of the weights | 2.0 MiB |",
        "| exported for | cpu |",
        "- no\\|t\n- &lt;b>good&lt;/b>",
        "| started from | minilm/model.safetensors |",
        "train | train.tsv, 6,920 rows, 12.5% of the texts are truncated, 0.4% of the tokens are unknown, "
        "2.0% of the texts consist mostly of unknown tokens |",
        "- In train.tsv, 12.5% of the texts are truncated.\n",
        "- In train.tsv, 2.0% of the texts consist mostly of unknown tokens.\n",
        "--learning_rate=3e-05\n--train_file=/data/train.tsv",
        "| eval_accuracy | 0.9375 |",
        "## Scores\n\n### dev.tsv, 872 rows\n\n",
        "| `serving_default` | input | `text` | string | [?] |",
        f"| exported by | bert_tf {bert_tf.__version__}, tensorflow {tf.__version__}",
        "| trained by | python 3.12.1 |",
        "- Only the first 16 tokens",
    ]
    assert not [row for row in rows if row not in text], text
    assert "__saved" not in text and "None" not in text and "/home" not in text
    assert card(_run(tmp_path, [START, *TRAIN])) == text


def test_scores_of_the_export_stand_beside_the_others(card):
    scored = _scored({"eval_f1": 0.5}, precision="mixed_bfloat16")
    text = card(RunFacts("model.ckpt-9", 9, evaluations=(scored,), export_scores={"eval_f1": 0.25}))
    assert "| eval_f1 | 0.5 |\n| eval_f1, in float32 as exported | 0.25 |" in text
    assert "The metrics were computed in mixed_bfloat16; this export is in float32." in text
    assert "not measured" not in text


def test_every_score_stands_below_its_file_the_test_file_first(card, tmp_path):
    fitted = ["eval_abstention_threshold", "eval_selective_accuracy"]
    files = {
        "": FILES[""] | {"fitted": fitted, "labels": {"": {"a|b": [872, 850, 680], "rare": [0, 22, 0]}}},
        "_later": {"files": [], "step": 2, "data": {"dev": {"file": "/data/later.tsv", "rows": 7}}},
        "_test": {"files": [], "step": 2, "data": {"final": {"file": "/data/test.tsv", "rows": 90}},
                  "labels": {"": {"a|b": [9, 90, 9], "rare": [81, 0, 0]}}},
    }  # fmt: skip
    for suffix, value in (("", 1.0), ("_later", 0.5), ("_test", 0.77)):
        lines = f"eval_abstention_threshold = 0.9\neval_selective_accuracy = {value}\nglobal_step = 2\n"
        (tmp_path / f"eval_results{suffix}.txt").write_text(lines)
    chosen = START | {"flags": {"metric_for_best_model": "f1"}}
    text = card(_run(tmp_path, [chosen, *TRAIN], (tmp_path / "eval_results.txt").read_text(), files))
    scores = text[text.index("## Scores") : text.index("## Signatures")]
    assert [line for line in scores.splitlines() if line.startswith("### ")] == [
        "### test.tsv, 90 rows", "### later.tsv, 7 rows", "### dev.tsv, 872 rows",
    ]  # fmt: skip
    test, later, dev = scores.split("### ")[1:]
    assert "| eval_selective_accuracy | 0.77 |" in test and "| eval_selective_accuracy | 0.5 |" in later
    assert "| eval_abstention_threshold (fitted) | 0.9 |\n| eval_selective_accuracy (fitted) | 1.0 |" in dev
    assert "| a\\|b | 9 | 90 | 0.1000 | 1.0000 | 0.1818 |\n| rare | 81 | 0 | 0.0000 | 0.0000 | 0.0000 |" in test
    note = "Metrics marked *fitted* use values, such as a threshold, that were fitted to these examples."
    assert note in dev and "fitted" not in test + later
    assert "The checkpoint was chosen by `f1` on these examples." in dev and "chosen" not in test + later
    limits = text[text.index("## Known limits") :]
    assert "- test.tsv has examples of 1 label that is never predicted: 'rare' (81 examples)." in limits
    assert "- dev.tsv has no examples of 1 label, so its quality is not measured: 'rare'." in limits


def test_a_card_leaves_out_what_is_not(card):
    text = card(RunFacts())
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Model", "## Labels (2)", "## Signatures", "## Versions", "## Known limits",
    ]  # fmt: skip
    assert "trained by" not in text and "None" not in text


def test_scores_of_other_weights_are_called_so(card):
    labels = {"": {"a": LabelResult(1, 0, 0), "b": LabelResult(1, 2, 1)}}
    facts = RunFacts("model.ckpt-9", 9, evaluations=(_scored({"eval_accuracy": 0.5}, 7, labels=labels),))
    text = card(facts)
    assert "### Examples that were not recorded" in text
    assert "These are the metrics of step 7, not of the exported weights." in text
    assert facts.gaps() == []


def test_the_precision_of_the_scores_is_said(card):
    for precision, words in (
        (None, "The precision of the evaluation was not recorded."),
        ("float32", "The metrics were computed in float32, the precision of this export."),
        ("mixed_bfloat16", "The metrics were computed in mixed_bfloat16; this export is in float32. Its own metrics "
         "were not measured."),
    ):  # fmt: skip
        evaluations = (_scored({"eval_accuracy": 0.5}, precision=precision),)
        assert words in card(RunFacts("model.ckpt-9", 9, evaluations=evaluations))
    assert "precision" not in card(RunFacts("model.ckpt-9", 9))


def test_a_card_of_several_labels_states_thresholds_averages_and_labels_that_are_always_predicted(card):
    labels = {"": {"film": LabelResult(2, 7, 2), "good": LabelResult(7, 7, 7)}}
    data = {"dev": {"file": "/data/dev.tsv", "rows": 7}}
    facts = RunFacts("model.ckpt-9", 9, evaluations=(_scored({"eval_f1": 0.5}, data=data, labels=labels),))
    several = ClassificationTask(tiny.config(), 2, "multi_label", ["film", "good"])
    text = card(facts, several)
    assert "| thresholds | 0.5 for every label |" in text
    assert "f1, precision and recall are micro averages over all labels." in text
    assert "- 1 label is predicted for every example of dev.tsv, although not all have it: 'film' (2 of 7).\n" in text
    fitted = ClassificationTask(tiny.config(), 2, "multi_label", ["film", "good"], thresholds=[0.75, 0.15])
    assert "| thresholds | film 0.7500, good 0.1500 |" in card(facts, fitted)
    of_one = card(facts)
    assert "thresholds" not in of_one and "micro" not in of_one and "predicted for every example" not in of_one
