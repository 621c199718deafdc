"""Writes two small vocabularies and what Hugging Face's tokenizers, which are written in Rust, make of hard texts.

    PYTHON_WITH_SENTENCEPIECE_AND_TOKENIZERS tests/goldens/rust_tokenizers.py FOLDER

FOLDER gets byte_bpe/ (vocab.json, merges.txt), unigram/ (spiece.model) and rust.json: for each text, and each way of
reading it, the ids and the offsets. The pipelines are those of the published tokenizer.json of roberta-base,
albert-base-v2 and xlm-roberta-base. Made with sentencepiece 0.2.3, tokenizers 0.22.2, protobuf 7.
"""

import io
import json
import pathlib
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import ByteLevelBPETokenizer, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

SENTENCES = """
The old lighthouse keeper counted 12 ships, 340 gulls and 9,500 waves before breakfast.
She said that it wasn't raining, but they'll want umbrellas; we've seen how quickly it's changing.
Reading slowly is the best way to remember the names of the rivers and the mountains.
Everybody (well, nearly everybody) thought the film was dull, although the music was great!
Le garçon a mangé une crêpe près de l'église où sa sœur chantait très doucement.
Die Straße führt über die Brücke; größere Züge müssen früher abfahren.
El niño pequeño soñó con un pingüino que bailaba en la montaña.
Старый рыбак каждый вечер выходил на берег и слушал, как шумит море.
Ο γέρος ψαράς έβγαινε κάθε βράδυ στην παραλία και άκουγε τη θάλασσα. ΤΕΛΟΣ.
كان الصياد العجوز يخرج كل مساءٍ إلى الشاطئ ويسمع صوت البحر.
बूढ़ा मछुआरा हर शाम किनारे पर जाता था और समुद्र को सुनता था।
ชาวประมงเฒ่าออกไปที่ชายหาดทุกเย็นและฟังเสียงทะเล น้ำใส
老渔夫每天傍晚到海边去，听大海的声音。这本书有三百页。
늙은 어부는 매일 저녁 바닷가에 나가 바다 소리를 들었다.
""".strip().split("\n")

# Characters, and runs of them, that tokenizers trip over.
ATOMS = (
    "a", "b", "the", "ing", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\u200d", "'", "'s", "'ll",
    "``", "''", '"', "1", "23", "9,", "12,5", "(", ")", "!", "\u2026", "\u2014", "\uff0c", "\u00e9", "e\u0301",
    "\u0301", "\u00bd", "\u00b2", "\ufb01", "\u2167", "\u00df", "\u0130", "\u03a3", "\u03c2", "\u0416", "\u4e2d",
    "\u6587", "\ud55c", "\u0915\u093c", "\u0e33", "\u0627\u0653", "\U0001f600", "\U0001f468\u200d\U0001f469",
    "\u2581", "\ue000", "\x00", "\x07", "\ufffd", "<s>", "</s>", "<mask>", "[CLS]", "[MASK]", "A", "\u2460",
    "\u2460\u0301",
)  # fmt: skip

# A small character map in place of nmt_nfkc, whose table alone would have 240 kB: what has a rule there, of some kinds.
SPACES = (0x09, 0x0A, 0x0C, 0x0D, 0xA0, 0x1680, 0x200B, 0x200E, 0x2028, 0x2029, 0x202F, 0x205F, 0x2581, 0x3000,
          0xFEFF, 0xFFFD)  # fmt: skip
DELETED = (*range(0x01, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F)
OTHERS = {"\u00bd": "1\u20442", "\u00b2": "2", "\ufb01": "fi", "\u2167": "VIII", "\uff0c": ",", "\u2026": "...",
          "\u2460": "1", "e\u0301": "\u00e9",
          "a\u0300": "\u00e0", "\u0627\u0653": "\u0622", "\u0915\u093c": "\u0958"}  # fmt: skip


def main(folder):
    folder = pathlib.Path(folder)
    byte_bpe = _byte_bpe(folder / "byte_bpe")
    model = _unigram(folder / "unigram")
    tokenizers = {
        "byte_bpe": _with_space(byte_bpe, False),
        "byte_bpe_with_space": _with_space(byte_bpe, True),
        "unigram": _albert(model, lower=True, accents=False),
        "unigram_cased": _albert(model, lower=False, accents=True),
        "unigram_in_front": _xlm_roberta(model),
    }
    texts = _texts()
    out = {"texts": texts}
    for name, tokenizer in tokenizers.items():
        encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
        out[name] = [[each.ids, [x for span in each.offsets for x in span]] for each in encoded]
    (folder / "rust.json").write_text(json.dumps(out, separators=(",", ":")) + "\n", encoding="utf-8")


def _texts():
    rng = random.Random(0)
    mixed = ["".join(rng.choices(ATOMS, k=rng.randrange(1, 13))) for _ in range(150)]
    return ["", " ", *SENTENCES, *ATOMS, *mixed]


def _byte_bpe(folder):
    folder.mkdir(parents=True, exist_ok=True)
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trained.train_from_iterator(SENTENCES * 2, vocab_size=600, special_tokens=special)
    trained.save_model(str(folder))
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    vocab["<mask>"] = len(vocab)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    return folder


def _with_space(folder, add_prefix_space):
    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    vocab, edges = tokenizer.get_vocab(), ("<s>", "</s>")
    sep, cls = (("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]))
    assert all(edge in vocab for edge in edges)
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls, True, add_prefix_space)
    return tokenizer


def _unigram(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.tsv"
    pairs = {chr(c): " " for c in SPACES} | {chr(c): "" for c in DELETED} | OTHERS
    codes = [[" ".join(f"{ord(c):X}" for c in part) for part in pair] for pair in pairs.items()]
    rules.write_text("".join(f"{a}\t{b}\n" for a, b in codes), encoding="utf-8")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SENTENCES, *map(str.lower, SENTENCES)]), model_writer=out, vocab_size=300,
        normalization_rule_tsv=str(rules), pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>",
        control_symbols=["[CLS]", "[SEP]", "[MASK]"], character_coverage=0.98, num_threads=1, minloglevel=2,
    )  # fmt: skip
    rules.unlink()
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    model.pieces.add(piece="9,", score=-3.0)  # what ALBERT's own vocabulary has many of
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    model.trainer_spec.Clear()
    model.trainer_spec.unk_id, model.trainer_spec.pad_id = 1, 0
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = -1
    model.trainer_spec.vocab_size = len(model.pieces)
    (folder / "spiece.model").write_bytes(model.SerializeToString())
    return model


def _albert(model, lower, accents):
    scores = [(p.piece, p.score - 100 * _digit_comma(p.piece)) for p in model.pieces]
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    steps += [] if accents else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if lower else []
    return _tokenizer(models.Unigram(scores, 1, False), model, steps)


def _digit_comma(piece):
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _xlm_roberta(model):
    front = [(piece, 0.0) for piece in ("<s>", "<pad>", "</s>", "<unk>")]
    scores = [*front, *((p.piece, p.score) for p in model.pieces[5:]), ("<mask>", 0.0)]
    return _tokenizer(models.Unigram(scores, 3, False), model, [])


def _tokenizer(unigram, model, steps):
    tokenizer = Tokenizer(unigram)
    steps = [*steps, normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)]
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(" {2,}"), " ")])
    words = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("\u2581", "always")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    return tokenizer


if __name__ == "__main__":
    main(sys.argv[1])
