"""Records that bring all that a run needs: one folder, one command without a vocabulary, held-out rows of any kind."""

import json
import shutil

import pytest

from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.corpus.options import CorpusOptions
from tests import tiny
from tests.integration.pretraining import support
from tests.integration.pretraining.support import LENGTH, PREDICTIONS, results, run_cases

pytestmark = pytest.mark.slow

FEW = ("--max_eval_steps=500", "--eval_batch_size=1")  # all rows, so that the same examples are scored


def _make(home, name, packing):
    made = CorpusOptions(max_seq_length=LENGTH, max_predictions_per_seq=PREDICTIONS, dupe_factor=1, packing=packing,
                   short_seq_prob=0.9, max_sentences_per_seq=3)  # fmt: skip
    text, vocab = str(home / f"{name.removesuffix('_packed')}.txt"), str(home / "vocab.txt")
    output = [str(home / "records" / name / f"{name}.tfrecord")]
    create_pretraining_data(CorpusJob([text], ["sentences"], output, vocab, do_lower_case=False, options=made))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A configuration, and folders of records: to train on, and to score on, packed and not."""
    home = tmp_path_factory.mktemp("records")
    support.write_material(home, ("train",))
    few = (home / "train.txt").read_text(encoding="utf-8").split("\n\n")[:8]
    (home / "held_out.txt").write_text("\n\n".join(few) + "\n", encoding="utf-8")
    for name, packing in (("train", False), ("held_out", False), ("held_out_packed", True)):
        _make(home, name, packing)
    folder = home / "both"  # held-out records among those to train on
    shutil.copytree(home / "records" / "train", folder)
    shutil.copytree(home / "records" / "held_out_packed", folder, dirs_exist_ok=True)
    return home


def _trained(home, *flags):
    return [
        f"--input_file={home}/both", f"--eval_file={home}/both/held_out_packed.tfrecord", "--do_train", "--do_eval",
        f"--bert_config_file={home}/bert_config.json", f"--output_dir={home}/out", f"--max_seq_length={LENGTH}",
        f"--max_predictions_per_seq={PREDICTIONS}", "--num_train_steps=2", "--num_warmup_steps=1",
        "--train_batch_size=4", *FEW, *flags,
    ]  # fmt: skip


def _scored(home, train, held_out):
    """A command that scores the trained model."""
    (home / f"{train}_{held_out}").mkdir()
    return [
        f"--input_file={home}/records/{train}", f"--eval_file={home}/records/{held_out}", "--do_eval",
        f"--init_checkpoint={home}/out", f"--output_dir={home}/{train}_{held_out}", f"--max_seq_length={LENGTH}",
        f"--max_predictions_per_seq={PREDICTIONS}", *FEW,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def said(home):
    both = f"--input_file={home}/both/train.tfrecord,{home}/both/held_out_packed.tfrecord"
    said = run_cases({
        "trained": _trained(home),
        "named": _trained(home, f"--input_file={home}/both/train.tfrecord", "--nodo_eval"),
        "both": _trained(home, both, f"--output_dir={home}/none"),
        "scored": _scored(home, "train", "held_out"),
    })  # fmt: skip
    assert [result["status"] for result in said.values()] == [0, 0, 1, 0], said
    return said


def test_the_vocabulary_and_its_letter_case_come_from_the_records(home, said):
    log = said["trained"]["log"]
    assert f"Using the vocabulary of the records: {home}/both/" in log and "do_lower_case=false" in log
    assert (home / "out" / "vocab.txt").read_text().split("\n") == [*tiny.VOCAB, ""]
    assert not json.loads((home / "out" / "tokenizer_config.json").read_text())["do_lower_case"]
    assert "do not describe how they were made" not in log


def test_of_a_folder_all_is_trained_on_but_what_is_scored_on(said):
    assert "the evaluation includes training data" not in said["trained"]["log"]
    assert "Continuing this run from step 2" in said["named"]["log"]  # the very same files


def test_what_is_named_is_trained_on_and_scored_on(said):
    log = said["both"]["log"]
    assert "1 file of --eval_file" in log and "the evaluation includes training data" in log
    assert "held_out_packed.tfrecord does not match" in log  # other rows do not go together


def _close(home, *runs):
    scores = [{**results(home / run), "global_step": 0} for run in runs]
    for other in scores[1:]:
        assert other == pytest.approx(scores[0], rel=1e-4, abs=1e-6)


def test_held_out_records_may_be_packed_where_those_to_train_on_are_not(home, said):
    _close(home, "out", "train_held_out")


def test_scores_are_the_same_in_all_kinds(home, said):
    _make(home, "train_packed", True)
    pairs = [("train", "held_out_packed"), ("train_packed", "held_out"), ("train_packed", "held_out_packed")]
    more = run_cases({"_".join(pair): _scored(home, *pair) for pair in pairs})
    assert all(result["status"] == 0 for result in more.values()), more
    _close(home, "train_held_out", *more)
