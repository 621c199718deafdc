"""The tokenizer against google-research/bert's own, from the package index: all code points, 100,000 random strings."""

import json
import subprocess
import sys

import pytest

from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests.tokenization import material

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


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    """A function (case, vocabulary file, texts) -> lists of ids, by Google's code in a process of its own."""
    folder = tmp_path_factory.mktemp("google")
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


def differences(tokenizer, google, texts):
    got = tokenizer.tokenize(texts).to_list()
    want = google("uncased" if tokenizer.do_lower_case else "cased", tokenizer.asset_file, texts)
    assert len(got) == len(want) == len(texts)
    return [row for row in zip(texts, got, want, strict=True) if row[1] != row[2]]


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_every_code_point_with_the_small_vocabulary(google, tmp_path, do_lower_case):
    WordPieceTokenizer(material.small_vocabulary(), do_lower_case).save(tmp_path)
    tokenizer = WordPieceTokenizer.from_directory(tmp_path)
    texts = [text for char in material.assigned() for text in (char, f"aB{char}ΣΑΣ{char} {char}\u0301Σ")]
    assert differences(tokenizer, google, [*material.TRICKY, *texts]) == []
    assert differences(tokenizer, google, list(material.random_texts(20_000, seed=11))) == []


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False], ids=["uncased", "cased"])
def test_100_000_random_strings_with_a_real_vocabulary(google, minilm, do_lower_case):
    tokenizer = WordPieceTokenizer(f"{minilm}/vocab.txt", do_lower_case)
    assert differences(tokenizer, google, [*material.TRICKY, *material.random_texts(100_000, seed=12)]) == []
