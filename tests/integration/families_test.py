"""BERT's children from random weights to an answer: trained on film reviews, exported, served, asked.

What they leave for Transformers answers there as here, by its `pipeline` and its own tokenizers.
"""

import collections
import json
import math
import sys

import numpy as np
import pytest

from bert_tf.serving.client.client import Client
from bert_tf.serving.server.server import serve
from bert_tf.tokenization.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, read_model
from tests import other_envs, tiny
from tests.conftest import ROOT
from tests.scripts import run

TOKENIZERS = ROOT / "tests" / "goldens" / "tokenizers"
_WORDS = 1500  # the most frequent ones of the training file get a piece each
_SHAPE = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "hidden_act": "gelu",
    "max_position_embeddings": 130, "layer_norm_eps": 1e-6, "initializer_range": 0.1,
}  # fmt: skip


def _byte_bpe(folder, words):
    """Writes merges that put words together from their left end, and returns the file of the vocabulary."""
    vocab = json.loads((TOKENIZERS / "byte_bpe" / "vocab.json").read_text(encoding="utf-8"))
    pairs = dict.fromkeys((f"\u0120{word}"[:n], f"\u0120{word}"[n]) for word in words for n in range(1, len(word) + 1))
    pieces = dict.fromkeys([*vocab, *("".join(pair) for pair in pairs)])
    path = folder / "vocab.json"
    path.write_text(json.dumps({piece: n for n, piece in enumerate(pieces)}), encoding="utf-8")
    (folder / "merges.txt").write_text("".join(f"{a} {b}\n" for a, b in pairs), encoding="utf-8")
    return path, len(pieces)


def _unigram(folder, words):
    """Adds words to a SentencePiece model, as likely as they are frequent, and returns its file."""
    model, _ = read_model(TOKENIZERS / "unigram" / "spiece.model")
    known, total = {piece.piece for piece in model.pieces}, sum(words.values())
    for word, count in words.items():
        if f"\u2581{word}" not in known:
            model.pieces.add(piece=f"\u2581{word}", score=math.log(count / total))
    path = folder / "spiece.model"
    path.write_bytes(model.SerializeToString())
    return path, len(model.pieces)


def _wordpiece(folder, words):
    pieces = [*tiny.VOCAB[:5], *sorted({*"".join(words)}), *(f"##{c}" for c in sorted({*"".join(words)})), *words]
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in dict.fromkeys(pieces)), encoding="utf-8")
    return path, len(dict.fromkeys(pieces))


def _many_languages(folder, words):
    """As `_unigram`, with the pieces that XLM-RoBERTa has around the model's: four for five, and one more."""
    path, size = _unigram(folder, words)
    path.rename(folder / "sentencepiece.bpe.model")
    return folder / "sentencepiece.bpe.model", size


def _french(folder, words):
    """As `_many_languages`, with <unk>, <s> and </s> in the model, as CamemBERT has them, and five tokens more."""
    path, _ = _many_languages(folder, words)
    model, _ = read_model(path)
    ordinary = [piece for piece in model.pieces if piece.type in (0, NORMAL)]  # 0: the file has no type
    del model.pieces[:]
    for text, kind in (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)):
        model.pieces.add(piece=text, score=0.0, type=kind)
    model.pieces.extend(ordinary)
    path.write_bytes(model.SerializeToString())
    return path, len(model.pieces) + 5


def _wordpiece_of_fairseq(folder, words):
    """As `_wordpiece`, with the special tokens of fairseq around BERT's vocabulary."""
    path, size = _wordpiece(folder, words)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *path.read_text(encoding="utf-8").split(), "<mask>"]
    path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return path, size + 5


def _class_of_many_languages(folder, words):
    """As `_many_languages`, for a family whose own tokenizer is another: a file says so."""
    text = json.dumps({"tokenizer_class": "XLMRobertaTokenizer"})
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return _many_languages(folder, words)


def _composed(folder, words):
    """Takes the small tokenizer.json of the tests: its words are few, but every byte is a piece."""
    golden = TOKENIZERS / "modernbert"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((golden / name).read_bytes())
    return folder / "tokenizer.json", 414


def _model_and_mask(folder, words):
    """As `_unigram`, with other special pieces in front, and one that is behind the model."""
    path, size = _unigram(folder, words)
    model, _ = read_model(path)
    for piece in model.pieces:  # <pad> is 0, as there
        piece.piece = {"<pad>": "[PAD]", "<unk>": "[UNK]"}.get(piece.piece, piece.piece)
    path.unlink()
    (folder / "spm.model").write_bytes(model.SerializeToString())
    return folder / "spm.model", size


# The family -> what its configuration says beside the shape, and what makes its vocabulary.
CASES = {
    "roberta": ({"type_vocab_size": 1}, _byte_bpe),
    "roberta-prelayernorm": ({"type_vocab_size": 1}, _byte_bpe),
    "albert": ({"embedding_size": 32, "num_hidden_groups": 1}, _unigram),
    "electra": ({"embedding_size": 32}, _wordpiece),
    "xlm-roberta": ({"type_vocab_size": 1}, _many_languages),
    "camembert": ({"type_vocab_size": 1}, _french),
    "mpnet": ({}, _wordpiece_of_fairseq),
    "modernbert": ({"local_attention": 16, "num_hidden_layers": 4}, _composed),
    "nomic_bert": ({"hidden_act": "silu"}, _wordpiece),
    "new": ({"rope_scaling": {"type": "ntk", "factor": 2.0}}, _class_of_many_languages),
    "deberta-v2": ({"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm",
                    "pos_att_type": "p2c|c2p", "position_buckets": 32, "position_biased_input": False},
                   _model_and_mask),
}


def _model(folder, data, family):
    """Puts a configuration and a vocabulary into `folder`; returns the vocabulary's path."""
    texts = [line.split("\t")[0] for line in (data / "train.tsv").read_text(encoding="utf-8").splitlines()]
    counts = collections.Counter(word for text in texts for word in text.split() if word.isascii() and word.isalpha())
    fields, make = CASES[family]
    path, size = make(folder, dict(counts.most_common(_WORDS)))
    config = {"model_type": family, "vocab_size": size, **_SHAPE, **fields}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


_PIPELINE = """
import json, sys, transformers
classify = transformers.pipeline("text-classification", sys.argv[1], device="cpu", top_k=None)
answers = [classify([text])[0] for text in json.load(open(sys.argv[2]))]
print(json.dumps([{each["label"]: each["score"] for each in answer} for answer in answers]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_reviews(family, shared_data, tmp_path):
    data, output = shared_data / "sst2-tutorial", tmp_path / "output"
    vocabulary = _model(tmp_path, data, family)
    run([
        f"--train_file={data}/train.tsv", f"--eval_file={data}/dev.tsv", f"--predict_file={data}/test.tsv",
        "--header=false", "--text_column=0", "--label_column=1", f"--bert_config_file={tmp_path}/config.json",
        f"--vocab_file={vocabulary}", f"--output_dir={output}", "--do_train", "--do_eval", "--do_predict",
        "--do_export", "--save_format=huggingface", "--max_seq_length=96", "--train_batch_size=32",
        "--learning_rate=1e-3", "--num_train_epochs=3", "--seed=1",
    ])  # fmt: skip
    scores = dict(line.split(" = ") for line in (output / "eval_results.txt").read_text().splitlines())
    print(f"{family}: accuracy {scores['eval_accuracy']} of the dev file, from random weights")
    assert float(scores["eval_accuracy"]) > 0.55
    written = [json.loads(line) for line in (output / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    with serve(str(output / "export"), "reviews") as server, Client(f"localhost:{server.port}", "reviews") as client:
        answers = client.classify([row["text"] for row in written])
    assert [answer["label"] for answer in answers] == [row["label"] for row in written]
    for answer, row in zip(answers, written, strict=True):
        assert answer["probabilities"] == pytest.approx(row["probabilities"], abs=1e-5)
    if sys.version_info < (3, 12):  # the old TensorFlow is for Python up to 3.11
        _check_old_tensorflow(output / "export" / "1", written[:100])
    if family != "new":  # whose classes are published code
        python = other_envs.transformers_5_python() if family == "nomic_bert" else other_envs.torch_python()
        rows = [row for row in written if len(row["text"]) < 80][:100]
        _check_transformers(output / "huggingface", rows, tmp_path, python)


def _check_old_tensorflow(path, rows):
    """The TensorFlow that TensorFlow Serving 2.12 to 2.19 link has all ops, and gives the same answers."""
    got = other_envs.old_tensorflow_answers(path, [row["text"].encode() for row in rows])
    np.testing.assert_allclose(got, [[*row["probabilities"].values()] for row in rows], atol=1e-5)


def _check_transformers(folder, rows, tmp_path, python):
    texts = tmp_path / "ask.json"
    texts.write_text(json.dumps([row["text"] for row in rows]), encoding="utf-8")
    found = json.loads(other_envs.run(python, _PIPELINE, folder, texts).splitlines()[-1])
    for row, answer in zip(rows, found, strict=True):
        assert answer == pytest.approx(row["probabilities"], abs=1e-5)
