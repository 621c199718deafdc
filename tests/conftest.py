"""What all tests share: the pretrained weights and the data sets, where a machine has them."""

import fcntl
import gc
import logging
import os
import pathlib
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before anything imports TensorFlow
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a path that is misspelled is not asked for on the Hugging Face Hub

import pytest

from bert_tf.utils.proxies import exempt_local

exempt_local()  # most tests ask servers of this machine, with any library
ROOT = pathlib.Path(__file__).resolve().parents[1]


def pytest_collection_finish():
    """Spares every search for garbage what lives to the end, TensorFlow and thousands of tests: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000)  # graphs are made of many small objects, most of which live as long as their test


def pytest_runtest_setup():
    """Undoes what loading a SavedModel in TensorFlow does: then absl drops what tests read with `caplog.at_level`."""
    logging.getLogger("absl").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def minilm() -> str:
    """Path of the all-MiniLM-L6-v2 directory: from $BERT_TF_MINILM, the user's cache, or the demo of this checkout."""
    named = os.environ.get("BERT_TF_MINILM")
    places = [
        *([pathlib.Path(named)] if named else []),
        pathlib.Path.home() / ".cache" / "bert_tf_data" / "minilm",
        ROOT / "demo" / "weights" / "minilm",
    ]
    for place in places:
        if (place / "model.safetensors").exists():
            return str(place)
    pytest.skip(f"needs the weights of MiniLM: `make demo` fetches them. Looked in: {', '.join(map(str, places))}")


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder with GLUE and the other data sets, beside the checkout."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the data sets in {folder}, which are not part of the checkout")
    return folder


@pytest.fixture(scope="session")
def shared_cases() -> pathlib.Path:
    """The folder with small inputs that failed elsewhere, beside the checkout."""
    folder = ROOT.parent / "shared" / "cases"
    if not folder.is_dir():
        pytest.skip(f"needs the inputs in {folder}, which are not part of the checkout")
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Returns a function of a name and of what fills a folder: the folder, filled once for all processes of a session.

    Nobody may write into it.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each process has a folder of its own in the session's
        base = base.parent

    def fill_once(name, fill):
        folder, filled = base / "made_once" / name, base / "made_once" / f"{name}.filled"
        folder.parent.mkdir(exist_ok=True)
        with open(f"{folder}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not filled.exists():
                shutil.rmtree(folder, ignore_errors=True)  # what another test failed to fill
                folder.mkdir()
                fill(folder)
                filled.touch()
        return folder

    return fill_once
