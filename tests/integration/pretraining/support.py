"""A corpus, a model and runs of run_pretraining.py, all small enough for tests."""

import os
import pathlib
import subprocess
import sys

import numpy as np

from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.local_run import create_pretraining_data
from bert_tf.pretraining.corpus.options import CorpusOptions
from tests import tiny
from tests.conftest import ROOT
from tests.scripts import run_programs

SCRIPT = "run_pretraining.py"
LENGTH, PREDICTIONS = 32, 5
LIMIT_S = 3600  # after which a run hangs, on however busy a machine

# Name of the record file -> how it differs from google-research/bert's.
RECORDS = {
    "train": {},
    "held_out": {"random_seed": 2},
    "packed": {"packing": True, "sentence_objective": "sop", "max_sentences_per_seq": 3},
    "alone": {"sentence_objective": "none"},
    "unmasked": {"dynamic_masking": True},
    "unmasked_swapped": {"dynamic_masking": True, "sentence_objective": "sop"},
    "unmasked_alone": {"dynamic_masking": True, "sentence_objective": "none"},
    "short": {"max_seq_length": 16},
}


def write_material(folder: pathlib.Path, names=("train", "held_out")) -> pathlib.Path:
    """Writes bert_config.json (dropout 0.1), vocab.txt and NAME.tfrecord of each of `names` in `RECORDS`.

    Beside them lie albert.json, of shared layers and a narrow table, disentangled.json, of relative positions and the
    heads of DeBERTa, rotary.json, of ModernBERT's layers, and a list of phrases.
    """
    tiny.config(dropout=0.1).save(folder / "bert_config.json")
    albert = {"model_type": "albert", "embedding_size": 16, "num_hidden_groups": 1, "num_hidden_layers": 2}
    tiny.config(**albert).save(folder / "albert.json")
    relative = {"pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "position_biased_input": False}
    tiny.config(**relative, enhanced_mask_decoder=True, replaced_token_context=True).save(folder / "disentangled.json")
    tiny.config(**tiny.MODERNBERT).save(folder / "rotary.json")
    (folder / "phrases.list").write_text("the film\nstory of people\nnew york\n", encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB), encoding="utf-8")
    add_records(folder, names)
    return folder


def add_records(folder: pathlib.Path, names):
    """Writes NAME.tfrecord of each of `names` in `RECORDS`, and the text that it is made of."""
    for name in names:
        seed = 1 if name == "held_out" else 0
        (folder / f"{name}.txt").write_text(_text(seed), encoding="utf-8")
        write_records(folder, name, **RECORDS[name])


def write_records(folder: pathlib.Path, name: str, **options):
    """Makes NAME.tfrecord of NAME.txt and vocab.txt, in this process."""
    made = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS, "dupe_factor": 2, **options}
    text, vocab, output = (os.fspath(folder / file) for file in (f"{name}.txt", "vocab.txt", f"{name}.tfrecord"))
    create_pretraining_data(CorpusJob([text], ["sentences"], [output], vocab, options=CorpusOptions(**made)))


def _text(seed) -> str:
    """40 documents of sentences in which every word has its successor: easily learned."""
    rng = np.random.default_rng(seed)
    documents = ([_sentence(rng) for _ in range(rng.integers(4, 9))] for _ in range(40))
    return "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"


def _sentence(rng) -> str:
    start, number = rng.integers(len(tiny.FILL)), rng.integers(4, 10)
    return " ".join(tiny.FILL[(start + n) % len(tiny.FILL)] for n in range(number)) + " ."


def arguments(folder, *changes: str, records="train") -> list[str]:
    """Returns a command line that trains on `records`, with flags added or replaced by `changes`."""
    usual = [
        f"--input_file={folder}/{records}.tfrecord", f"--bert_config_file={folder}/bert_config.json",
        f"--vocab_file={folder}/vocab.txt", f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}",
        "--do_train", "--train_batch_size=16", "--learning_rate=3e-3", "--num_warmup_steps=2",
    ]  # fmt: skip
    names = {change.split("=")[0] for change in changes}
    return [flag for flag in usual if flag.split("=")[0] not in names] + list(changes)


def start(flags: list[str], **streams) -> subprocess.Popen:
    """Starts run_pretraining.py."""
    return subprocess.Popen([sys.executable, SCRIPT, *flags], cwd=ROOT, env=_environment(), **streams)


def run_cases(cases: dict[str, list[str]]) -> dict[str, dict]:
    """Runs command lines by name in one process after another; returns {"status", "log", ...} of each."""
    return dict(zip(cases, run_programs("run_pretraining", cases.values()), strict=True))


def _environment():
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}


def results(folder) -> dict[str, float]:
    """Returns what eval_results.txt says."""
    lines = (pathlib.Path(folder) / "eval_results.txt").read_text().splitlines()
    assert lines == sorted(lines)
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}
