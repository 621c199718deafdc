"""Pretrained models in the user's cache: texts for them, and what a user has to do before `bert_tf.load(folder)`.

A function that is named after a model takes the package's folder as it was fetched and an empty one, and makes of this
a directory that can be loaded, in Hugging Face's format. The other models need nothing.
"""

import dataclasses
import json
import os
import pathlib
import subprocess

import numpy as np
from safetensors.numpy import save_file

from bert_tf.models.config import config_for
from tests import other_envs
from tests.conftest import ROOT

DATA = pathlib.Path(os.environ.get("BERT_TF_DATA") or pathlib.Path.home() / ".cache" / "bert_tf_data")
GOLDENS = pathlib.Path(__file__).parent / "goldens"
ONNX_TO_HF = ROOT.parent / "shared" / "tools" / "onnx_to_hf.py"  # not part of the checkout


def texts(name: str) -> list:
    """Returns texts, or pairs of them."""
    return json.loads((GOLDENS / "real_texts.json").read_text(encoding="utf-8"))[name]


def run(script, *arguments):
    """Runs a script of Python in the environment with torch and onnxruntime; fails with what it says."""
    command = [other_envs.torch_python(), script, *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def antibodies() -> list[str]:
    """Returns the variable domains of trastuzumab and adalimumab, and 20 with a tenth of the residues changed."""
    chains = texts("antibodies")
    rng, letters = np.random.default_rng(0), list("ACDEFGHIKLMNPQRSTVWY")
    for i in range(20):
        chain = np.array(list(chains[i % 4]), dtype=object)
        change = rng.random(len(chain)) < 0.1
        chain[change] = rng.choice(letters, change.sum())
        chains.append("".join(chain))
    return [" ".join(chain) for chain in chains]


def _link(package, folder, *names):
    for name in names:
        (folder / pathlib.Path(name).name).symlink_to(package / name)


def write(folder, name, values):
    (folder / name).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def _from_onnx(script, model, folder):
    done = run(script, model, folder / "weights.npz")
    weights = {name: np.ascontiguousarray(value) for name, value in np.load(folder / "weights.npz").items()}
    assert weights, done.stdout
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _vocabulary(package, folder):
    pieces = json.loads((package / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in sorted(pieces, key=pieces.get)), "utf-8")


def antiberty(package, folder):
    _link(package, folder, "vocab.txt", "AntiBERTy_md_smooth/config.json", "AntiBERTy_md_smooth/pytorch_model.bin")
    write(folder, "tokenizer_config.json", {"do_lower_case": False})


def question_classifier(package, folder):
    _from_onnx(ONNX_TO_HF, package / "model.onnx", folder)
    dataclasses.replace(config_for("bert-tiny"), hidden_act="gelu").save(folder / "config.json")
    _vocabulary(package, folder)


def tagger(package, folder):
    _from_onnx(ONNX_TO_HF, package / "tagger.onnx", folder)
    tags = json.loads((package / "tag_vocab.json").read_text(encoding="utf-8"))["tags"]
    shape = {"vocab_size": 28996, "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12}
    labels = {"id2label": {str(i): tag for i, tag in enumerate(tags)}}
    write(folder, "config.json", {"model_type": "distilbert", **shape, **labels})
    write(folder, "tokenizer_config.json", {"do_lower_case": False})
    _vocabulary(package, folder)


def electra(package, folder):
    _link(package, folder, "pytorch_model.bin", "vocab.txt", "tokenizer_config.json")
    config = json.loads((package / "config.json").read_text(encoding="utf-8"))
    write(folder, "config.json", config["model"]["backbone"]["config"])


def ernie(package, folder):
    _from_onnx(GOLDENS / "onnx_ernie.py", package / "model" / "model.onnx", folder)
    config_for("ernie-3.0-nano-zh").save(folder / "config.json")
    _link(package, folder, "model/vocab.txt", "model/tokenizer_config.json")
