"""Environments for slow tests, with torch or an old TensorFlow: bert_tf needs neither, but is compared with them.

BERT_TF_TORCH_PYTHON, BERT_TF_TORCH5_PYTHON and others name interpreters that are ready; without them an environment
is made once at the root of the repository, which takes some minutes and a package index.
"""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_OLD = """
import json, sys, tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
texts = [bytes.fromhex(text) for text in json.loads(sys.argv[2])]
print(json.dumps([tf.__version__, serve(text=tf.constant(texts))["probabilities"].numpy().tolist()]))
"""
TORCH = ("torch==2.13.0", "transformers==4.57.*", "numpy", "safetensors", "onnx", "onnxruntime",
         "sentencepiece", "protobuf")  # fmt: skip
TORCH_MORE = ("sentence-transformers==5.7.*", "captum")  # which build on them
CLIENTS = ("openai==3.*", "cohere==7.*", "huggingface_hub==0.36.*", "numpy", "tritonclient[http,grpc]==2.*")
TORCH5 = ("torch==2.13.0", "transformers==5.*", "numpy", "safetensors", "sentencepiece", "protobuf")


def torch_python() -> str:
    """Returns a Python with torch and transformers, onnx and onnxruntime, without TensorFlow."""
    return os.environ.get("BERT_TF_TORCH_PYTHON") or _environment(".venv-torch", (*TORCH, *TORCH_MORE))


def transformers_5_python() -> str:
    """Returns a Python with torch and Transformers 5, whose folders differ from those of 4."""
    return os.environ.get("BERT_TF_TORCH5_PYTHON") or _environment(".venv-torch5", TORCH5)


def sentence_transformers_python() -> str:
    """Returns a Python with torch and sentence-transformers; the test is skipped where `torch_python` has not both."""
    return _with_package("sentence_transformers", "sentence-transformers")


def captum_python() -> str:
    """Returns a Python with torch, transformers and captum; the test is skipped where `torch_python` has not all."""
    return _with_package("captum", "captum")


def _with_package(module, name):
    python = torch_python()
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        pytest.skip(f"needs {name}, which {python} has not: BERT_TF_TORCH_PYTHON names another")
    return python


def torch_tf_python() -> str:
    """Returns a Python with torch, transformers and TensorFlow."""
    return os.environ.get("BERT_TF_TORCH_TF_PYTHON") or _environment(".venv-torch-tf", (*TORCH, "tensorflow==2.21.0"))


def old_tensorflow_python() -> str:
    """Returns a Python with the TensorFlow and tensorflow-text that TensorFlow Serving 2.12 to 2.19 link."""
    named = os.environ.get("BERT_TF_OLD_TF_PYTHON")
    return named or _environment(".venv-tf212", ("tensorflow==2.12.*", "tensorflow-text==2.12.*"))


def tf_hub_python() -> str:
    """Returns a Python with tensorflow_hub, and a TensorFlow and tensorflow-text that go with it; else skips the test.

    tensorflow_hub wants Keras 2 (tf_keras) and a setuptools below 81: `python -m venv hub && hub/bin/pip install
    "tensorflow==2.15.*" "tensorflow-text==2.15.*" "tf_keras==2.15.*" tensorflow-hub "setuptools<81"`.
    """
    named = os.environ.get("BERT_TF_HUB_PYTHON")
    return named or pytest.skip("needs tensorflow_hub: BERT_TF_HUB_PYTHON names a Python with it")


def trec_eval_python() -> str:
    """Returns a Python with pytrec_eval."""
    named = os.environ.get("BERT_TF_TREC_EVAL_PYTHON")
    return named or _environment(".venv-trec-eval", ("numpy", "pytrec-eval-terrier==0.5.*"))


def clients_python() -> str:
    """Returns a Python with the clients of other protocols than TensorFlow Serving's."""
    return os.environ.get("BERT_TF_CLIENTS_PYTHON") or _environment(".venv-clients", CLIENTS)


def frames_packages() -> str:
    """Returns a folder with pandas, Polars and Hugging Face's datasets for this version of Python."""
    python = os.environ.get("BERT_TF_FRAMES_PYTHON") or _environment(".venv-frames", ("pandas", "polars", "datasets"))
    return run(python, "import sysconfig; print(sysconfig.get_path('purelib'))").strip()


def mlflow_packages() -> str:
    """Returns a folder with MLflow for this version of Python; what it shares with this one has the same version."""
    shared = ("numpy", "protobuf", "pyarrow", "scipy", "scikit-learn", "matplotlib", "aiohttp", "grpcio")
    pins = [f"{name}=={importlib.metadata.version(name)}" for name in shared]
    python = os.environ.get("BERT_TF_MLFLOW_PYTHON") or _environment(".venv-mlflow", ("mlflow>=3.16,<4", *pins))
    return run(python, "import sysconfig; print(sysconfig.get_path('purelib'))").strip()


def transformers_tf_python() -> str:
    """Returns a Python with the TF classes of Transformers 4; else skips the test.

    They need torch, TensorFlow, and tf-keras of TensorFlow's version: `python -m venv hf && hf/bin/pip install
    "transformers==4.57.*" torch "tensorflow==2.21.*" "tf-keras==2.21.*"`.
    """
    named = os.environ.get("BERT_TF_TRANSFORMERS_TF_PYTHON")
    return named or pytest.skip("needs TF classes: BERT_TF_TRANSFORMERS_TF_PYTHON names a Python that has them")


def run(python: str, code: str, *arguments, cwd: str | os.PathLike | None = None) -> str:
    """Runs `code` with that interpreter in a process of its own; returns what it prints, fails with what it says."""
    command = [python, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{python} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return done.stdout


def old_tensorflow_answers(path: str | os.PathLike, texts: list[bytes]) -> list[list[float]]:
    """Returns the probabilities that the SavedModel of a classifier gives under the old TensorFlow."""
    out = run(old_tensorflow_python(), _OLD, path, json.dumps([text.hex() for text in texts]))
    version, answers = json.loads(out.splitlines()[-1])
    assert version.startswith("2.12.")
    return answers


def _environment(name, requirements):
    folder = _ROOT / name
    python, ready = str(folder / "bin" / "python"), folder / "ready"
    text = "\n".join(requirements) + "\n"
    # Written last: an installation that was broken off starts again, and so does one of other requirements.
    if not ready.exists() or ready.read_text(encoding="utf-8") != text:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        ready.write_text(text, encoding="utf-8")
    return python
