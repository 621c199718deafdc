"""google-research/bert's own tokenizer, from the package index, in a process of its own."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

PACKAGES = ("bert-tensorflow==1.0.4", "absl-py==2.3.1", "six==1.17.0")  # the first holds tokenization.py
# That file wants TensorFlow for opening a file and nothing else: the stand-in keeps the process small and on its own.
GOOGLE = """
import json, sys, types
folder, case, vocab, texts, out = sys.argv[1:]
sys.path.insert(0, folder)
names = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1")
sys.modules.update({name: types.ModuleType(name) for name in names})
sys.modules["tensorflow.compat"].v1 = v1 = sys.modules["tensorflow.compat.v1"]
sys.modules["tensorflow"].compat = sys.modules["tensorflow.compat"]
v1.gfile = types.SimpleNamespace(GFile=lambda path, mode: open(path, mode, encoding="utf-8", newline="\\n"))
from absl import flags
from bert import tokenization
flags.FLAGS(["google"])
tokenizer = tokenization.FullTokenizer(vocab, do_lower_case=case == "uncased")
with open(texts) as file, open(out, "w") as ids:
    json.dump([tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) for text in json.load(file)], ids)
"""


def google_tokenizer(folder: pathlib.Path) -> Callable[[str, str, list[str]], list[list[int]]]:
    """Returns a function (case, vocabulary file, texts) -> lists of ids; skips the test without a package index.

    Args:
        folder: where the package and the texts are written.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site"), *PACKAGES]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs {PACKAGES[0]} from a package index: {done.stderr[-300:]}")

    def ids(case, vocab_file, texts):
        (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        files = [str(folder / "site"), case, str(vocab_file), str(folder / "texts.json"), str(folder / "ids.json")]
        done = subprocess.run([sys.executable, "-I", "-c", GOOGLE, *files], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads((folder / "ids.json").read_text(encoding="utf-8"))

    return ids
