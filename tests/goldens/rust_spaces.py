"""Writes what Hugging Face's tokenizers make of white space where `Metaspace` alone splits texts.

    PYTHON_WITH_TOKENIZERS tests/goldens/rust_spaces.py FOLDER

FOLDER is tests/goldens/tokenizers; whole/4/albert and whole/4/xlm-roberta are read, as Transformers 4.57 converts them,
and again without their character map. It gets spaces.json: the added tokens, the texts, and the ids of each. Made with
tokenizers 0.22.2.
"""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
TOKENS = {
    "[E1]": {"lstrip": True}, "<ent>": {"normalized": False, "rstrip": True}, "the": {"rstrip": True},
    "<l>": {"normalized": False, "lstrip": True}, "<p>": {"normalized": False},
}  # fmt: skip
SPACES = "\t\n\x0b\x0c\r\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"
ATOMS = ("a", "sea", " ", " ", "  ", "   ", "\u2581", "\u0301", "\r\n", *"\t\n\r\x85\xa0\u3000", *TOKENS)
FIXED = (
    "", " ", "  ", "a sea", "a sea ", "a sea  ", " a sea", "  a sea", "a  sea", "a   sea", "a \t", "a\t ", "[E1]  [E1]",
    "a  [E1]", "a <ent>", "a  <ent>", "<ent> <ent>", "the the ", "a [E1] <ent> ", "\u2581", " \u2581", "\u2581 ",
    "a \u2581 sea", "a\u2581sea", "a \u2581[E1]", "a\u2581 [E1]", "a  \u2581sea", "a\r", "a \r", "a\r\n",
)  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder)
    rng = random.Random(7)
    texts = [*FIXED, *(f"a{c}sea{c}" for c in SPACES)]
    texts += ["".join(rng.choices(ATOMS, k=rng.randint(1, 9))) for _ in range(150)]
    ids = {}
    for name in ("albert", "xlm-roberta"):
        for has_map in (True, False):
            whole = json.loads((folder / "whole" / "4" / name / "tokenizer.json").read_text(encoding="utf-8"))
            tokenizer = Tokenizer.from_str(json.dumps(changed(whole, has_map)))
            ids[name if has_map else f"{name} without a map"] = [
                tokenizer.encode(text, add_special_tokens=False).ids for text in texts
            ]
    written = json.dumps({"tokens": TOKENS, "texts": texts, "ids": ids}, separators=(",", ":"))
    (folder / "spaces.json").write_text(written + "\n", encoding="utf-8")


def changed(whole, has_map):
    """Returns a tokenizer.json with the added tokens, and without its character map where it is not to have one."""
    first = len(whole["model"]["vocab"])
    added = [{"id": first + n, "content": c, **FLAGS, **own} for n, (c, own) in enumerate(TOKENS.items())]
    steps = [step for step in whole["normalizer"]["normalizers"] if has_map or step["type"] != "Precompiled"]
    normalizer = {"type": "Sequence", "normalizers": steps}
    return whole | {"added_tokens": whole["added_tokens"] + added, "normalizer": normalizer}


if __name__ == "__main__":
    main(sys.argv[1])
