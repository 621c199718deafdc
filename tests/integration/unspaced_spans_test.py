"""Chinese entities and answers from character spans to predictions: offsets count code points of the original text."""

import json

import numpy as np
import pytest

import bert_tf
from tests import tiny

PERSONS = ("张伟", "李娜", "Rene\u0301e", "Ａｎｎａ", "诸葛\U000e0100亮")
PLACES = ("北京", "上海", "Ｒ２基地", "海\ufe00口")
# Between them: full-width forms and spaces, combining marks, and emoji of one to seven code points.
FILL = (
    "昨天", "在", "，", "唱歌。", "「没有」", "１２３", "\u3000", " ", "ｅ\u0301的", "😀", "👍🏽", "🇨🇳",
    "👩\u200d👩\u200d👧\u200d👦", "ﾊﾟ", "①", "的\u20dd", "𠮷",
)  # fmt: skip
WORDS = ("anna", "ａｎｎａ", "renee", "ｒ２", "ｅ", "１２３", "①", "ハ")
CHARS = sorted({char for text in (*PERSONS, *PLACES, *FILL, "谁？") for char in text})
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(char for char in CHARS if char not in WORDS)]


def _text(rng, names):
    """Returns a text with these names in it, and the span of each."""
    text, spans = "", []
    for name in [*names, None]:
        # Around a name are ideographs: WordPiece does not divide Latin letters from a symbol next to them.
        text += "".join(("在", *rng.choice(FILL, rng.integers(0, 3)).tolist(), "在"))
        if name is not None:
            spans.append((len(text), len(text) + len(name)))
            text += name
    return text, spans


def _tagged(count, seed):
    """Returns texts with entities, as annotation tools export them."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(count):
        pairs = [("PER", rng.choice(PERSONS)), ("LOC", rng.choice(PLACES))][:: rng.choice((-1, 1))]
        pairs = [(kind, str(name)) for kind, name in pairs[: rng.integers(0, 3)]]
        text, spans = _text(rng, [name for _, name in pairs])
        rows.append({"text": text, "entities": [{"start": start, "end": end, "type": kind, "text": name}
                     for (start, end), (kind, name) in zip(spans, pairs, strict=True)]})  # fmt: skip
    return rows


def _asked(count, seed):
    """Returns questions for the person in a text."""
    rng, rows = np.random.default_rng(seed), []
    for n in range(count):
        names = [str(rng.choice(PERSONS)), str(rng.choice(PLACES))][:: rng.choice((-1, 1))]
        text, spans = _text(rng, names)
        name, (start, _) = next(pair for pair in zip(names, spans, strict=True) if pair[0] in PERSONS)
        rows.append({"id": str(n), "question": "谁？", "context": text,
                     "answers": {"text": [name], "answer_start": [start]}})  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    return str(tiny.checkpoint(folder, vocab=VOCAB, vocab_size=len(VOCAB), max_position_embeddings=64))


SETTINGS = {"max_seq_length": 48, "train_batch_size": 16, "learning_rate": 4e-3, "num_train_epochs": 14, "seed": 2,
            "do_lower_case": True, "verbose": False}  # fmt: skip


def _write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_entities(start, tmp_path):
    train, dev = (_write(tmp_path / f"{name}.jsonl", _tagged(count, seed))
                  for name, count, seed in (("train", 240, 0), ("dev", 60, 1)))  # fmt: skip
    settings = {**SETTINGS, "init_checkpoint": start, "output_dir": tmp_path / "out", "doc_stride": 20}
    run = bert_tf.finetune("tagging", train, dev, predict=dev, **settings)
    assert run.metrics["eval_f1"] == 1
    expected = _tagged(60, 1)
    assert sum(len(row["entities"]) for row in expected) > 40
    answers = bert_tf.Predictor(tmp_path / "out")([row["text"] for row in expected])
    written = map(json.loads, (tmp_path / "out" / "predictions.jsonl").read_text(encoding="utf-8").splitlines())
    for row, answer, line in zip(expected, answers, written, strict=True):
        for entities in (answer["entities"], line["entities"]):
            found = [{name: each[name] for name in ("start", "end", "type", "text")} for each in entities]
            assert found == row["entities"]


@pytest.mark.slow
def test_answers(start, tmp_path):
    rows, dev = _asked(240, 0), _asked(60, 1)
    run = bert_tf.finetune(
        "question_answering", rows, dev, init_checkpoint=start, output_dir=tmp_path / "out", doc_stride=16,
        max_query_length=4, max_answer_length=6, **SETTINGS,
    )  # fmt: skip
    assert run.metrics["eval_exact"] == 100
    answers = bert_tf.Predictor(tmp_path / "out")([(row["question"], row["context"]) for row in dev])
    for row, answer in zip(dev, answers, strict=True):
        [name], [begin] = row["answers"]["text"], row["answers"]["answer_start"]
        assert (answer["answer"], answer["start"], answer["end"]) == (name, begin, begin + len(name))
        assert row["context"][answer["start"] : answer["end"]] == name
