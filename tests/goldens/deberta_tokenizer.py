"""Writes a small tokenizer of DeBERTa's shape, and what Transformers' two tokenizers make of hard texts.

    PYTHON_WITH_SENTENCEPIECE_AND_TRANSFORMERS tests/goldens/deberta_tokenizer.py FOLDER [TEXTS.json VOCAB_SIZE]

FOLDER gets spm.model, tokenizer.json, tokenizer_config.json and ids.json: for each text of tokenizers/rust.json the
ids, without special tokens, of the slow tokenizer, which is SentencePiece itself, and of the fast one. The pieces are
those of tokenizers/unigram, with DeBERTa's four special pieces and those of the 256 bytes in front; the mask is behind
the model. With TEXTS.json, a list of texts, the model is trained on every 20th of them, and ids.json is about these
texts, with the offsets of the fast tokenizer in flat lists. Made with sentencepiece 0.2.3, Transformers 4.57.6.
"""

import json
import pathlib
import sys

from sentencepiece import SentencePieceTrainer, sentencepiece_model_pb2
from transformers import DebertaV2Tokenizer, DebertaV2TokenizerFast

HERE = pathlib.Path(__file__).parent / "tokenizers"
UNKNOWN, CONTROL, BYTE = 2, 3, 6
SPECIAL = {"[PAD]": CONTROL, "[CLS]": CONTROL, "[SEP]": CONTROL, "[UNK]": UNKNOWN}


def write_model(path):
    """Writes the SentencePiece model."""
    model = sentencepiece_model_pb2.ModelProto.FromString((HERE / "unigram" / "spiece.model").read_bytes())
    pieces = [piece for piece in model.pieces if piece.type not in (UNKNOWN, CONTROL)]
    kept = [(piece.piece, piece.score, piece.type) for piece in pieces]
    del model.pieces[:]
    front = SPECIAL | {f"<0x{byte:02X}>": BYTE for byte in range(256)}
    for text, score, kind in [*((text, 0.0, kind) for text, kind in front.items()), *kept]:
        model.pieces.add(piece=text, score=score, type=kind)
    spec = model.trainer_spec
    spec.byte_fallback = True
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id, spec.vocab_size = 0, 1, 2, 3, len(model.pieces)
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = SPECIAL
    path.write_bytes(model.SerializeToString())


def train_model(path, texts, vocab_size):
    """Trains a SentencePiece model with DeBERTa's special pieces."""
    pad, bos, eos, unk = SPECIAL
    with path.open("wb") as file:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=file, vocab_size=vocab_size, character_coverage=0.99,
            pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece=pad, bos_piece=bos, eos_piece=eos, unk_piece=unk,
            byte_fallback=True, minloglevel=2,
        )  # fmt: skip


def main(folder, texts=None, vocab_size=None):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    trained = texts is not None
    if trained:
        texts = json.loads(pathlib.Path(texts).read_text(encoding="utf-8"))
        train_model(folder / "spm.model", texts[::20], int(vocab_size))
    else:
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
    if trained:
        out["offsets"] = [[x for span in each.offsets for x in span] for each in encoded]
    (folder / "ids.json").write_text(json.dumps(out, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
