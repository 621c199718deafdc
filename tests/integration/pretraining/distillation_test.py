"""`pretrain run` with a teacher: what is learned, kept and refused."""

import os
import re

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints.tf1 import read_tensors, write_tf1
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.training.history import read_history
from tests import tiny
from tests.integration.pretraining import support

pytestmark = pytest.mark.slow

STEPS = 6
TRAIN = (f"--num_train_steps={STEPS}", "--save_checkpoints_steps=3", "--objective=distillation")
RELATIONS = [f"{name}_relations_loss" for name in ("query", "key", "value")]
OF_DISTILBERT = "--distillation_losses=soft_targets:5,masked_lm:2,hidden"

# Name -> (flags, what the message must say); HOME is the folder with teachers and records.
BAD = {
    "no teacher": ([], r"--objective=distillation requires --teacher\. Add --teacher=DIR"),
    "another objective": (
        ["--teacher=HOME/bare", "--objective=masked_lm"],
        r"--teacher requires --objective=distillation; got --objective=masked_lm\. Change",
    ),
    "no head": (
        ["--teacher=HOME/bare", OF_DISTILBERT],
        r"soft_targets requires a --teacher with a masked-LM head, but HOME/bare has no such head\. Use "
        "--distillation_losses of hidden, attention, query_relations",
    ),
    "another vocabulary": (
        ["--teacher=HOME/other"],
        rf"--teacher must have the student's vocabulary\. HOME/other has {len(tiny.VOCAB)} tokens, the "
        rf"student has {len(tiny.VOCAB)}; 2 differ, the first with id {len(tiny.VOCAB) - 2}: ',' and '\.'",
    ),
    "another letter case": (["--teacher=HOME/cased"], r"--teacher must read texts like the student\."),
    "shorter rows": (["--teacher=HOME/short"], r"as long as the student's, 32 tokens\. HOME/short only"),
    "an unknown loss": (["--teacher=HOME/bare", "--distillation_losses=logits"], r"got 'logits' in logits; corr"),
    "no weight": (["--teacher=HOME/bare", "--distillation_losses=hidden:0"], r"got 'hidden:0' in hidden:0; corr"),
    "nothing of the teacher": (
        ["--teacher=HOME/bare", "--distillation_losses=masked_lm"],
        r"--distillation_losses must include a loss on the teacher's outputs; got 'masked_lm'; add one of",
    ),
    "other heads": (
        ["--teacher=HOME/bare", "--distillation_losses=attention"],
        r"requires a student with as many attention heads as the teacher's layer, 3\. The student has 2; use",
    ),
    "relation heads": (
        ["--teacher=HOME/bare", "--relation_heads=5"],
        r"--relation_heads must divide the width of the student's attention, 32, and of the teacher's, 48; got",
    ),
    "a temperature for nothing": (
        ["--teacher=HOME/bare", "--distillation_temperature=3"],
        r"--distillation_temperature requires soft_targets among --distillation_losses; got ",
    ),
    "a layer too high": (
        ["--teacher=HOME/bare", "--teacher_layer=2"],
        r"--teacher_layer must be one of .* 1 to 1; got 2\.",
    ),
}  # fmt: skip


def _with_head(folder):
    """Writes a teacher with a masked-LM head, wider than the student."""
    keras.utils.set_random_seed(1)
    model = Pretrainer(tiny.config(hidden_size=48), next_sentence=False)
    folder.mkdir()
    model.config.save(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    write_tf1(os.fspath(folder / "bert_model.ckpt"), model.variables)


@pytest.fixture(scope="module")
def home(all_material, tmp_path_factory):
    """A folder with teachers."""
    home = tmp_path_factory.mktemp("teachers")
    _with_head(home / "headed")
    tiny.checkpoint(home / "bare", hidden_size=48, num_attention_heads=3)
    tiny.checkpoint(home / "wider", hidden_size=96, num_attention_heads=3)
    tiny.checkpoint(home / "other", vocab=(*tiny.VOCAB[:-2], tiny.VOCAB[-1], tiny.VOCAB[-2]))
    tiny.checkpoint(home / "short", max_position_embeddings=16)
    tiny.checkpoint(home / "cased")
    (home / "cased" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return home


def _flags(material, home, *changes, records="alone"):
    changes = [change.replace("HOME", str(home)) for change in changes]
    names = {change.split("=")[0] for change in changes}
    usual = [flag for flag in (*TRAIN, f"--output_dir={home}/out") if flag.split("=")[0] not in names]
    return support.arguments(material, *usual, *changes, records=records)


@pytest.fixture(scope="module")
def said(material, home):
    """What each run said, all in one process."""
    relations = ("--teacher=HOME/bare", "--relation_heads=4", "--output_dir=HOME/relations", "--do_eval")
    softly = ("--teacher=HOME/headed", OF_DISTILBERT, "--distillation_temperature=3",
              "--precision=mixed_bfloat16", "--output_dir=HOME/softly", "--gradient_accumulation_steps=2")  # fmt: skip
    cases = {
        "relations": _flags(material, home, *relations, records="unmasked"),
        "softly": _flags(material, home, *softly, records="packed"),
        "another teacher": _flags(material, home, "--teacher=HOME/wider", *relations[1:], records="unmasked"),
    }
    cases |= {name: _flags(material, home, *flags) for name, (flags, _) in BAD.items()}
    return support.run_cases(cases)


def test_relations_are_learned_from_a_wider_teacher_without_a_head(said, home):
    assert said["relations"]["status"] == 0, said["relations"]["log"]
    scores = support.results(home / "relations")
    assert scores.keys() == {"global_step", "loss", *RELATIONS}
    assert scores["loss"] == pytest.approx(sum(scores[name] for name in RELATIONS), rel=1e-5)
    lines = [line for line in read_history(home / "relations" / "history.jsonl") if line["kind"] == "train"]
    assert set(RELATIONS) <= lines[-1].keys() and 0 < lines[-1]["loss"] < lines[0]["loss"]


def test_soft_targets_of_packed_rows_at_half_width(said, home):
    assert said["softly"]["status"] == 0, said["softly"]["log"]
    line = [line for line in read_history(home / "softly" / "history.jsonl") if line["kind"] == "train"][-1]
    total = 5 * line["soft_targets_loss"] + 2 * line["masked_lm_loss"] + line["hidden_loss"]
    assert line["loss"] == pytest.approx(total, rel=1e-4)


def test_the_student_is_a_checkpoint_and_the_teacher_is_no_part_of_it(said, home):
    assert bert_tf.load(home / "relations").config.hidden_size == 32
    kept = read_tensors(os.fspath(home / "relations" / f"model.ckpt-{STEPS}"))
    assert not [name for name, value in kept.items() if 48 in np.shape(value)]
    assert not [name for name in kept if name.startswith("cls/")]
    on_the_way = read_tensors(os.fspath(home / "relations" / "model.ckpt-3"))  # that of the end has no moments
    moving = {name.removesuffix("/adam_m") for name in on_the_way if name.endswith("/adam_m")}
    assert "bert/encoder/layer_0/attention/self/query/kernel" in moving
    # Nothing that is compared depends on these.
    assert not [name for name in moving if "pooler" in name or "layer_0/output" in name or "intermediate" in name]


def test_what_leads_to_a_wider_teacher_is_a_part_that_others_leave_out(said, home):
    kept = read_tensors(os.fspath(home / "softly" / f"model.ckpt-{STEPS}"))
    assert kept["cls/distillation/hidden/kernel"].shape == (32, 48) and "cls/predictions/output_bias" in kept
    bert = bert_tf.load(home / "softly")
    assert bert.head is None and "cls/distillation/hidden/kernel" in bert.others


def test_a_run_goes_on_with_its_own_teacher_only(said):
    log = said["another teacher"]["log"]
    assert said["another teacher"]["status"] == 1, log
    assert re.search(r"A run can only resume .* teacher: 'SHA-256 \w{16}' before, 'SHA-256 \w{16}' now\.", log), log


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, said, home):
    log = said[name]["log"].replace(str(home), "HOME")
    assert said[name]["status"] == 1 and re.search(BAD[name][1], log), log
    assert "Traceback" not in log and log.count("Error: ") == 1
    assert not (home / "out").exists()
