"""Writes a small tokenizer of DeBERTa's shape, and what Transformers' two tokenizers make of hard texts.

    PYTHON_WITH_SENTENCEPIECE_AND_TRANSFORMERS tests/goldens/deberta_tokenizer.py FOLDER

FOLDER gets spm.model, tokenizer.json, tokenizer_config.json and ids.json: for each text of tokenizers/rust.json the
ids, without special tokens, of the slow tokenizer, which is SentencePiece itself, and of the fast one. The pieces are
those of tokenizers/unigram, with DeBERTa's four special pieces in front; the mask is behind the model. Made with
sentencepiece 0.2.3, Transformers 4.57.6.
"""

import json
import pathlib
import sys

from sentencepiece import sentencepiece_model_pb2
from transformers import DebertaV2Tokenizer, DebertaV2TokenizerFast

HERE = pathlib.Path(__file__).parent / "tokenizers"
UNKNOWN, CONTROL = 2, 3
SPECIAL = {"[PAD]": CONTROL, "[CLS]": CONTROL, "[SEP]": CONTROL, "[UNK]": UNKNOWN}


def write_model(path):
    """Writes the SentencePiece model."""
    model = sentencepiece_model_pb2.ModelProto.FromString((HERE / "unigram" / "spiece.model").read_bytes())
    pieces = [piece for piece in model.pieces if piece.type not in (UNKNOWN, CONTROL)]
    kept = [(piece.piece, piece.score, piece.type) for piece in pieces]
    del model.pieces[:]
    for text, score, kind in [*((text, 0.0, kind) for text, kind in SPECIAL.items()), *kept]:
        model.pieces.add(piece=text, score=score, type=kind)
    spec = model.trainer_spec
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id, spec.vocab_size = 0, 1, 2, 3, len(model.pieces)
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = SPECIAL
    path.write_bytes(model.SerializeToString())


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "spm.model")
    texts = json.loads((HERE / "rust.json").read_text(encoding="utf-8"))["texts"]
    slow = DebertaV2Tokenizer(str(folder / "spm.model"))
    fast = DebertaV2TokenizerFast(str(folder / "spm.model"))
    assert slow.mask_token_id == fast.mask_token_id == len(slow.vocab)
    fast.save_pretrained(folder)
    for name in ("special_tokens_map.json", "added_tokens.json"):
        (folder / name).unlink(missing_ok=True)
    fast._tokenizer.encode_special_tokens = True  # as ours: added tokens in a text are text
    encoded = fast._tokenizer.encode_batch(texts, add_special_tokens=False)
    out = {"slow": [slow._tokenizer.spm.encode(text) for text in texts], "fast": [each.ids for each in encoded]}
    (folder / "ids.json").write_text(json.dumps(out, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
