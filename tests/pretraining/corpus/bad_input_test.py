"""What is wrong with the input is said in one message; what was there before stays, and nothing half-made."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from bert_tf.tokenization.table_registry import TABLES
from tests.conftest import ROOT
from tests.pretraining import families
from tests.pretraining.corpus import support
from tests.processes import LIMIT_S
from tests.scripts import at


def _run(program, folder, *flags, limit=None):
    """Runs the program on everything in folder/corpus, beside output of an earlier run. Returns what it said."""
    (folder / "out").mkdir()
    (folder / "out" / "a.tfrecord").write_bytes(b"old")
    given = {flag.split("=")[0] for flag in flags}
    given |= {"--vocab_file"} if "--init_checkpoint" in given else set()
    default = [
        f"--input_file={folder}/corpus", f"--vocab_file={folder}/vocab.txt", f"--output_file={folder}/out/a.tfrecord",
        "--num_workers=1", "--dupe_factor=1",
    ]  # fmt: skip
    result = program.run([*flags, *(flag for flag in default if flag.split("=")[0] not in given)], limit)
    assert result["status"] == 1 and "Traceback" not in result["log"], result["log"]
    assert os.listdir(folder / "out") == ["a.tfrecord"]
    assert (folder / "out" / "a.tfrecord").read_bytes() == b"old"
    (message,) = (line for line in result["log"].splitlines() if " Error: " in line)
    return message


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "vocab.txt").write_text("\n".join(support.VOCAB) + "\n")
    return tmp_path


def _write(folder, **files):
    for name, text in files.items():
        (folder / "corpus" / f"{name}.txt").write_bytes(text.encode() if isinstance(text, str) else text)


GOOD = "wak wal .\nwam .\n\nwal .\nwak .\n"


# Name -> (files of the corpus, further flags, parts of the message); HOME is the folder with all files.
BAD = {
    "an empty corpus": ({}, (), "Input must be files, directories or glob patterns; got"),
    "empty files": ({"a": "", "b": "\n\n"}, (), "No sentences found in 2 files"),
    "one document": (
        {"a": "wak wal .\nwam .\n"},
        (),
        "requires at least two documents",
        "--sentence_objective=sop or none",
    ),
    "a binary file": ({"a": GOOD, "b": bytes(range(256)) * 10}, (), "corpus/b.txt (binary: it contains NUL bytes)"),
    "a line of 10 MB": (
        {"a": GOOD, "b": "wak .\n" + "wal " * 2_500_000},
        ("--input_format=sentences",),
        "corpus/b.txt:2: a line must have at most 8 MiB",
    ),
    "masking flags that contradict each other": (
        {"a": GOOD},
        ("--do_whole_word_mask", "--masking=span"),
        "--do_whole_word_mask and --masking=span cannot be combined",
    ),
    "shares that are more than all": (
        {"a": GOOD},
        ("--mask_token_prob=0.8", "--random_token_prob=0.3"),
        "--mask_token_prob and --random_token_prob must not be negative, and their sum must be at most 1",
    ),
    "several files and shards": (
        {"a": GOOD},
        ("--output_file=HOME/out/a.tfrecord,HOME/out/b.tfrecord", "--num_shards=2"),
        "--num_shards requires a single --output_file; got 2",
    ),
    "a folder as output": (
        {"a": GOOD},
        ("--output_file=HOME/out",),
        "--output_file must be a file, but",
        "out is a directory",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_message_and_nothing_half_made(program, folder, name):
    files, flags, *parts = BAD[name]
    _write(folder, **files)
    message = _run(program, folder, *at(folder, flags))
    assert all(part in message for part in parts), message


def test_a_vocabulary_without_mask_is_refused(program, folder):
    _write(folder, a=GOOD)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nwak\n")
    assert "lacks [MASK]. Append it" in _run(program, folder)


def test_a_tokenizer_or_a_model_is_needed(program, folder):
    _write(folder, a=GOOD)
    assert "Pass --init_checkpoint, a model whose tokenizer is" in _run(program, folder, "--vocab_file=")


def test_what_a_model_does_not_take(program, folder, tmp_path_factory):
    """Pairs of texts without a segment for the second, words between spaces without WordPiece."""
    _write(folder, a=GOOD)
    model = tmp_path_factory.mktemp("roberta") / "model"
    families.tokenizer_of(model, "roberta", TABLES)
    (model / "config.json").write_text('{"model_type": "roberta", "vocab_size": 601, "type_vocab_size": 1}')
    for given, said in {
        ("--sentence_objective=nsp",): f"--sentence_objective must be none for the model in {model}, because it has no",
        ("--word_segmenter=pretokenized", "--masking=whole_word"): "requires a WordPiece tokenizer",
        ("--word_segmenter=jieba", "--masking=whole_word", "--dynamic_masking"): "cannot be combined",
    }.items():
        assert said in _run(program, folder, f"--init_checkpoint={model}", *given), given
        shutil.rmtree(folder / "out")
    nowhere = _run(program, folder, f"--init_checkpoint={folder}/nowhere")
    assert "--init_checkpoint must be the directory of a model; got" in nowhere


def test_an_unreadable_file_among_a_thousand_is_named(program, folder):
    _write(folder, **{f"f{number}": GOOD for number in range(1000)})
    os.symlink(folder / "nowhere", folder / "corpus" / "f1000.txt")
    message = _run(program, folder)
    assert "1 of 1001 are not" in message and "f1000.txt (No such file or directory)" in message


def test_a_file_that_breaks_off_is_named(program, folder):
    packed = gzip.compress(os.urandom(300_000).hex().encode())
    (folder / "corpus" / "a.txt.gz").write_bytes(packed[: len(packed) // 2])
    assert "a.txt.gz cannot be read to its end" in _run(program, folder, "--input_format=sentences")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_told_with_the_file(program, folder, workers):
    _write(folder, a=GOOD * 3000)
    message = _run(program, folder, f"--num_workers={workers}", limit=20_000)
    assert "File too large: " in message and f"{folder}/out/" in message


PHRASES = {
    "no list": ("--masking=phrase", None, "--phrase_file and --masking=phrase require each other"),
    "a list for another masking": ("--masking=ngram", "wak wal\n", "got a list and --masking=ngram; remove the"),
    "an empty list": ("--masking=phrase", "\n", "phrases.list contains no phrases. Write"),
    "columns": ("--masking=phrase", "wak\twal\n", "phrases.list:1: each line of a --phrase_file must be one phr"),
    "other words": ("--masking=phrase", "new york\n", "phrases.list consists of tokens of the vocabulary"),
}  # fmt: skip


@pytest.mark.parametrize("name", PHRASES)
def test_lists_of_phrases_that_cannot_be_are_refused(program, folder, name):
    masking, phrases, message = PHRASES[name]
    _write(folder, a=GOOD)
    flags = [masking]
    if phrases is not None:
        (folder / "phrases.list").write_text(phrases, encoding="utf-8")
        flags.append(f"--phrase_file={folder}/phrases.list")
    assert message in _run(program, folder, *flags)


def _start(folder, workers, **how):
    """Starts a run that takes minutes; returns its process once it has finished some of its work."""
    _write(folder, a=GOOD * 30_000)
    (folder / "out").mkdir()
    command = [
        sys.executable, "-m", "bert_tf", "create_pretraining_data", f"--input_file={folder}/corpus",
        f"--vocab_file={folder}/vocab.txt", f"--output_file={folder}/out/a.tfrecord", f"--num_workers={workers}",
        "--dupe_factor=1000",
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, **how)
    while not [*(folder / "out").glob(".*.parts/tokenized.json")]:
        assert process.poll() is None
        time.sleep(0.1)
    return process


@pytest.mark.slow
def test_ctrl_c_ends_all_workers_in_one_line(folder):
    # Whoever runs the tests in the background may have them ignore Ctrl-C, and what they start would too.
    process = _start(folder, 2, start_new_session=True,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # fmt: skip
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=40)[1]  # the workers have minutes of work in hand, for which nobody waits
    assert process.returncode == 130 and "Traceback" not in said
    assert "Interrupted. Run the same command again to resume after the finished work." in said
    assert os.listdir(folder / "out") == [".a.tfrecord.parts"]


@pytest.mark.slow
def test_sigterm_ends_the_run_and_keeps_the_finished_work(folder):
    process = _start(folder, 1)
    process.terminate()
    said = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 143 and "Run the same command again to resume." in said
    assert os.listdir(folder / "out") == [".a.tfrecord.parts"]
