"""Writes the tokenizers of each family as Transformers saves them, and what it makes of hard texts with them.

    PYTHON_WITH_TRANSFORMERS tests/goldens/whole_tokenizers.py FOLDER

FOLDER/N, where N is Transformers' major version, gets a folder for each family: config.json, tokenizer.json and
tokenizer_config.json alone, and rows.json: the texts, the ids of each, and whole rows of the first ten, each as a pair
with the next one. Special tokens that are written in a text stay text. The committed ones are of Transformers 4.57.6
with tokenizers 0.22.2, and of 5.24.0 with 0.23.3. Slow tests run it, too.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import transformers
from sentencepiece import sentencepiece_model_pb2
from transformers import AutoTokenizer

GOLDENS = pathlib.Path(__file__).parent / "tokenizers"
LETTERS = ("a", "b", "c", "d", "e", "f", "h", "i", "l", "o", "r", "s", "t")
PIECES = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "ship", *LETTERS, *(f"##{c}" for c in LETTERS), "caf",
    "##\u00e9", "caf\u00e9", "H", "The", "Sea", ",", ".", "!", "'", '"', "`", "<", ">", "/", "[", "]", "cls", "mask",
    "\u4e2d", "\u6587", "\u00e9", "9", "1", "##9", "##5", "\uff0c", "\u2026",
)  # fmt: skip
TEXTS = (
    "The sea, the ship.", "the sea", " leading", "caf\u00e9 Caf\u00e9 cafe\u0301", "\u4e2d\u6587the\u4e2d",
    "9,5 19, 9,", "``quoted'' \"x\" `a' '''", "it's we'll they've", "THE SEA", "a\tb\nc\r\nd", "a\u00a0b\u3000c",
    "a\u200bb\u200dc", "\u00bd \u00b2 \ufb01sh \u2167", "\u2026 \uff0c \u2014", "\U0001f600 ok",
    "\U0001f468\u200d\U0001f469", "\ud55c\uad6d\uc5b4", "\u0e19\u0e49\u0e33 \u0e33", "\u0915\u093c \u0627\u0653",
    "[CLS] the [SEP] [MASK]", "<s> a </s> <mask>", "\u2581the\u2581sea", "a\x00b\x07c\ufffdd", "\u0130stanbul \u00df",
    "e\u0301\u0323", "\u0301", "", "thethethe", "b" * 100, "b" * 101, "the  sea   ship", "a!b?c.d", "Stra\u00dfe",
    "\u041a\u043e\u0442", "\u0416\u0438\u0437\u043d\u044c", "#hash ##a", "1,000", "\u2460 \u2460\u0301", "(a) [b] {c}",
    "x_y-z",
)  # fmt: skip
FAMILIES = ("bert", "distilbert", "electra", "ernie", "roberta", "roberta-prelayernorm", "albert", "xlm-roberta",
            "camembert", "mpnet")  # fmt: skip


def main(folder, names=(*FAMILIES, "bert-cased")):
    folder = pathlib.Path(folder) / transformers.__version__.split(".")[0]
    for name in names:
        with tempfile.TemporaryDirectory() as source:
            model_type = name.removesuffix("-cased")
            files = {"config.json": json.dumps({"model_type": model_type}).encode(), **_files(model_type)}
            if name != model_type:
                files["tokenizer_config.json"] = b'{"do_lower_case": false}'
            for file, data in files.items():
                pathlib.Path(source, file).write_bytes(data)
            _save(AutoTokenizer.from_pretrained(source), folder / name, files["config.json"])


def _files(model_type):
    """Returns the files that the model's first authors gave out, small ones."""
    if model_type.startswith("roberta"):
        return {path.name: path.read_bytes() for path in (GOLDENS / "byte_bpe").iterdir()}
    model = sentencepiece_model_pb2.ModelProto.FromString((GOLDENS / "unigram" / "spiece.model").read_bytes())
    if model_type == "albert":
        return {"spiece.model": model.SerializeToString()}
    if model_type not in ("xlm-roberta", "camembert"):
        # MPNet's vocabulary is BERT's, with the special tokens of fairseq around it.
        pieces = ("<s>", "<pad>", "</s>", "<unk>", *PIECES, "<mask>") if model_type == "mpnet" else PIECES
        return {"vocab.txt": "".join(f"{piece}\n" for piece in pieces).encode()}
    ordinary = [piece for piece in model.pieces if piece.type == piece.NORMAL]
    del model.pieces[:]
    for text, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3)):
        model.pieces.add(piece=text, score=0.0, type=kind)
    model.pieces.extend(ordinary)
    model.trainer_spec.unk_id, model.trainer_spec.bos_id, model.trainer_spec.eos_id = 0, 1, 2
    return {"sentencepiece.bpe.model": model.SerializeToString()}


def _save(tokenizer, folder, config):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as saved:
        tokenizer.save_pretrained(saved)
        values = json.loads(pathlib.Path(saved, "tokenizer.json").read_text(encoding="utf-8"))
        (folder / "tokenizer.json").write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")
        shutil.copy(pathlib.Path(saved, "tokenizer_config.json"), folder)
    (folder / "config.json").write_bytes(config)
    rows(folder, folder / "rows.json")


def rows(folder, out):
    """Writes what AutoTokenizer makes of the texts with the files of a folder."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    backend = tokenizer._tokenizer
    backend.encode_special_tokens = True
    backend.no_padding()
    backend.no_truncation()
    alone = [each.ids for each in backend.encode_batch(list(TEXTS), add_special_tokens=False)]
    pairs = [backend.encode(*pair) for pair in zip(TEXTS[:10], TEXTS[1:11], strict=True)]
    values = {"texts": TEXTS, "ids": alone, "pairs": [[each.ids, each.type_ids] for each in pairs]}
    pathlib.Path(out).write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
