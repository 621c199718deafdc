"""What hostile files are refused with, and at which cost: 5 seconds, 500 MB."""

import contextlib
import os
import pathlib
import re
import resource
import time
import warnings

import numpy as np
import pytest

from tests import processes, tiny
from tests.checkpoints import hostile_files
from tests.checkpoints.good_files import (
    ADAPTER_CONFIG,
    ADAPTERS,
    BESIDE,
    BPE_VOCAB,
    MERGES,
    MODULES,
    PIECES,
    PRESET_TOKENIZER,
    WHOLE,
)  # fmt: skip
from tests.checkpoints.hostile_family_files import FAMILY_CASES
from tests.checkpoints.hostile_files import CONFIG, SETTINGS, VOCAB

pytestmark = pytest.mark.slow  # a sample is among tests/integration/bad_input_test.py

SECONDS, MEGABYTES = 5, 500
CASES = hostile_files.CASES | FAMILY_CASES


def read(folder, name):
    """Reads what a file of a model's folder is for, to the end."""
    from bert_tf.checkpoints.loading import read_labels
    from bert_tf.checkpoints.readers import open_checkpoint
    from bert_tf.checkpoints.weight_files import OPENERS
    from bert_tf.models.config import EncoderConfig
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer

    path = os.path.join(folder, name)
    if name in OTHERS:
        OTHERS[name](folder, path)
    elif name == CONFIG:
        read_labels(folder, EncoderConfig.load(folder))
    elif name in (VOCAB, SETTINGS):
        WordPieceTokenizer.from_directory(folder)
    else:
        checkpoint = open_checkpoint(folder)
        for path in checkpoint.names:
            checkpoint.get(path)
        file = OPENERS[checkpoint.format](checkpoint.path)
        for name in file.shapes:  # also what the model has no use for
            file.read(name)


def _byte_bpe(folder, path):
    from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer

    ByteBpeTokenizer.from_directory(folder)


def _unigram(folder, path):
    from bert_tf.tokenization.unigram import UnigramTokenizer

    UnigramTokenizer.from_directory(folder)._words.tokenize_with_offsets(["\u2581the\u2581ship", "\u2581xq\u597d", ""])


def _preset_tokenizer(folder, path):
    from bert_tf.checkpoints import keras_hub

    keras_hub.tokenizer_of(os.path.dirname(path))


def _adapters(folder, path):
    from bert_tf.checkpoints import adapters
    from bert_tf.checkpoints.model_directory import ModelDirectory

    kernels = {f"bert/encoder/layer_0/attention/self/{part}/kernel": np.zeros((8, 8), np.float32)
               for part in ("query", "value")}  # fmt: skip
    adapters.merge_adapters(ModelDirectory("base", kernels, tiny.config(), None), folder)


def _modules(folder, path):
    from bert_tf.models.sentence_transformers_files import folders

    folders(path)


# What is read otherwise than weights, their configuration and a vocab.txt.
OTHERS = {
    MERGES: _byte_bpe, BPE_VOCAB: _byte_bpe, WHOLE: _byte_bpe, PIECES: _unigram, PRESET_TOKENIZER: _preset_tokenizer,
    ADAPTER_CONFIG: _adapters, ADAPTERS: _adapters, MODULES: _modules,
}  # fmt: skip


def _folder(parent, name, write):
    """Makes a folder of the hostile file and what its reader needs beside it."""
    os.mkdir(parent)
    if name in (SETTINGS, VOCAB):
        with open(os.path.join(parent, VOCAB), "w", encoding="utf-8") as file:
            file.write("\n".join(tiny.VOCAB))
    if name == VOCAB:
        os.remove(os.path.join(parent, VOCAB))
    if name in BESIDE:
        BESIDE[name](pathlib.Path(parent))
    write(os.path.join(parent, name))


def _measure(parent, names, pipe):
    """Sends for each case: its name, the message or the fault, seconds of the processor, megabytes of growth."""
    warnings.simplefilter("ignore")
    for i, case in enumerate(names):
        name, folder = CASES[case][0], os.path.join(parent, str(i))
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            read(folder, name)
            result = "it was read"
        except ValueError as error:
            result = f"ValueError: {error}"
        except BaseException as error:  # whatever it is: that is the fault which is looked for
            result = f"{type(error).__name__}: {error}"
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        pipe.send((case, result[:10_000], time.process_time() - start, growth / 1000))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What each case ended in, in one process, that goes on where a case killed the one before."""
    parent, names, found = os.fspath(tmp_path_factory.mktemp("hostile")), list(CASES), {}
    for i, case in enumerate(names):
        _folder(os.path.join(parent, str(i)), *CASES[case][:2])
    there, here = processes.pipe()
    process = processes.start(_measure, parent, names, here)
    here.close()
    try:
        with contextlib.suppress(EOFError):  # it has ended, at the last case or before: what is missing tells
            while there.poll(60):
                case, *result = there.recv()
                found[case] = result
    finally:
        process.kill()
        process.join()
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_in_one_message_soon_and_cheaply(results, case):
    assert case in results, "the process died of it, or of a case before"
    message, seconds, megabytes = results[case]
    words = CASES[case][2]
    assert message.startswith("ValueError: ") and re.search(words, message), message
    assert len(message) < 3000
    assert seconds < SECONDS and megabytes < MEGABYTES, (seconds, megabytes)
