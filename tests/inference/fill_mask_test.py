"""Fill in the blank: the program, what it refuses, and a real trained head against torch."""

import dataclasses
import io
import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.names import family_mappings
from bert_tf.cli import main
from bert_tf.inference.fill_mask import Filler, format_answer, read_masked_texts
from bert_tf.inference.score_text import TextScorer
from tests import parity, tiny
from tests.export.conversion import models

GOLDENS = parity.GOLDENS
# Variable parts of two antibodies, trastuzumab and adalimumab: heavy and light chain of each.
ANTIBODIES = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS",
    "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPPTFGQGTKVEIK",
    "EVQLVESGGGLVQPGRSLRLSCAASGFTFDDYAMHWVRQAPGKGLEWVSAITWNSGHIDYADSVEGRFTISRDNAKNSLYLQMNSLRAEDTAVYYCAKVSYLSTASSLDYWGQGTLVTVSS",
    "DIQMTQSPSSLSASVGDRVTITCRASQGIRNYLAWYQQKPGKAPKLLIYAASTLQSGVPSRFSGSGSGTDFTLTISSLQPEDVATYYCQRYNRAPYTFGQGTKVEIK",
)  # fmt: skip
RESIDUES = tuple("ACDEFGHIKLMNPQRSTVWY")


@pytest.fixture(scope="module")
def filler(pretrained):
    return Filler(pretrained, top_k=4)


def test_each_mask_is_answered_in_order(filler):
    texts = ["the [MASK] is a good [MASK] .", "[MASK] story", *["a [MASK]"] * 40]
    answers = list(filler(texts))
    assert [(a["id"], a["mask"]) for a in answers] == [(0, 0), (0, 1)] + [(i, 0) for i in range(1, 42)]
    assert [a["text"] for a in answers[1:]] == texts
    for answer in answers:
        assert len(set(answer["token"])) == 4 and set(answer["token"]) <= set(tiny.VOCAB)
        assert answer["probability"] == sorted(answer["probability"], reverse=True) and answer["probability"][0] < 1
    alone = list(filler(texts[1:2]))[0]  # not padded
    assert alone["token"] == answers[2]["token"]
    np.testing.assert_allclose(alone["probability"], answers[2]["probability"], rtol=1e-4)


@pytest.mark.slow
def test_the_mask_of_another_vocabulary(tmp_path):
    changes = {"model_type": "roberta", "first_position": 2, "type_vocab_size": 1, "has_pooler": False}
    path = tiny.pretrained(tmp_path / "model", vocab_size=601, classifier_act="tanh", **changes)
    os.remove(os.path.join(path, "vocab.txt"))
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(GOLDENS / "tokenizers" / "byte_bpe" / name, path)
    texts = ["the <mask> ship", "[MASK] <s> the\u00a0<mask>,"]
    filler = Filler(path, top_k=601)
    answers = list(filler(texts))
    assert [answer["id"] for answer in answers] == [0, 1] and " the" in answers[0]["token"]  # as a reader writes it
    assert (
        format_answer(answers[0], "<mask>").startswith("the <mask> ship\n")
        and read_masked_texts(texts, None, "<mask>") == texts
    )
    with pytest.raises(ValueError, match="Each text must contain <mask>, spelled like this"):
        read_masked_texts(["a [MASK]"], None, "<mask>")
    served = tf.saved_model.load(filler.export(str(tmp_path / "export"))).signatures["serving_default"]
    given = served(text=tf.constant(texts))
    np.testing.assert_allclose(given["probability"], [answer["probability"] for answer in answers], atol=1e-5)
    assert given["token"].numpy()[0, 0].decode() == answers[0]["token"][0]


def test_a_hugging_face_masked_lm_without_a_pooler_is_the_same(pretrained, filler, tmp_path):
    weights = {}
    for variable in filler.model.variables:
        if "pooler" not in variable.path:
            array = variable.value.numpy()
            array = array.T if family_mappings.hugging_face().transposed(variable.path) else array
            weights[family_mappings.hugging_face().from_ours(variable.path)] = np.ascontiguousarray(array)
    save_file(weights, tmp_path / "model.safetensors")
    for name in ("bert_config.json", "vocab.txt"):
        (tmp_path / name).write_bytes(pathlib.Path(pretrained, name).read_bytes())
    text = ["it is [MASK] , [MASK] ."]
    assert list(Filler(tmp_path, top_k=4)(text)) == list(filler(text))


def test_fill_mask_prints_json(pretrained, filler, capsys):
    words = ["the [MASK] is [MASK] .", f"--model={pretrained}", "--json", "--top_k=4", "--", "--[MASK]"]
    with pytest.raises(SystemExit) as end:
        main.start_program("fill_mask", words)
    assert not end.value.code
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == list(filler(["the [MASK] is [MASK] .", "--[MASK]"]))


def test_answers_are_formatted_for_reading():
    answer = {"text": "[MASK] [MASK]", "mask": 1, "token": ["a", "bc"], "probability": [0.75, 0.125]}
    assert format_answer(answer) == "[MASK] [MASK]   ([MASK] 2)\n  0.7500  a\n  0.1250  bc"
    assert format_answer({**answer, "text": "[MASK]", "mask": 0}).startswith("[MASK]\n")


def test_texts_come_from_arguments_a_file_or_standard_input(tmp_path, monkeypatch):
    file = tmp_path / "texts"
    file.write_bytes(b"one [MASK]\r\n\n  \ntwo \xff[MASK]\n")
    expected = ["one [MASK]", "two [MASK]"]
    assert read_masked_texts([], str(file)) == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert read_masked_texts([], None) == expected
    assert read_masked_texts(["\udcff[MASK]"], None) == ["[MASK]"]
    for arguments, input_file, message in (
        (["[MASK]"], str(file), "as arguments or with `input_file`, not both"),
        (["[MASK]", "it is [mask] .", ""], None, r"missing in 2 of 3 texts, first in text 2: 'it is \[mask\] \.'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_masked_texts(arguments, input_file)
    file.write_text("\n \n")
    with pytest.raises(ValueError, match="pass at least one text with a mask token"):
        read_masked_texts([], str(file))


def test_a_model_without_the_head_is_refused(tmp_path):
    tiny.checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"masked-LM head is required .cls/pred.*bert_model\.ckpt has no such head"):
        Filler(tmp_path)


def test_a_discriminator_is_refused(tmp_path):
    """microsoft/deberta-v3-* hold the discriminator with its head, and a masked-LM head that is not of this encoder."""
    model, lm = models.model("deberta", "discriminator"), models.model("deberta", "masked_lm")
    heads = {path: array for path, array in lm.arrays.items() if path.startswith("cls/")}
    writers.write_model(tmp_path, "bert_tf", dataclasses.replace(model, arrays={**model.arrays, **heads}))
    message = r"model\.ckpt-0 is a discriminator: it has a head for replaced tokens .*`pytorch_model\.generator\.bin`"
    for opened in (Filler, TextScorer):
        with pytest.raises(ValueError, match=message):
            opened(tmp_path)


def test_minilm_has_no_head(minilm):
    with pytest.raises(ValueError, match=r"masked-LM head is required.*\.safetensors has no such head: it is a bare"):
        Filler(minilm)


def test_probabilities_that_are_not_numbers(filler):
    before = filler.model.get_weights()
    filler.model.set_weights([np.full_like(weight, np.nan) for weight in before])
    try:
        with pytest.raises(ValueError, match="NaN or infinity for 1 of 1 examples, the first of them example 0"):
            list(filler(["a [MASK]"]))
    finally:
        filler.model.set_weights(before)


def test_a_mask_that_is_cut_off_and_a_length_beyond_the_table(pretrained):
    filler = Filler(pretrained, max_seq_length=8)
    assert len(list(filler(["a a a a a [MASK] a a"]))) == 1
    with pytest.raises(ValueError, match=r"within the first 7 tokens.*beyond them in 1 of 2 texts, first in text 2"):
        list(filler(["[MASK]", "a a a [MASK] a a [MASK]"]))
    with pytest.raises(ValueError, match="must be at most 32, max_position_embeddings of the checkpoint; got 33"):
        Filler(pretrained, max_seq_length=33)


def test_unknown_words_are_said(filler, caplog):
    caplog.set_level("WARNING")
    list(filler(["xyzzy [MASK] film"]))
    words = "1 of 3 tokens are [UNK], that is, not in the vocabulary. Check that `do_lower_case` (now true)"
    assert words in caplog.text


@pytest.fixture(scope="module")
def antiberty():
    """(directory of the weights, vocabulary) of AntiBERTy, a BERT of 25 pieces: five special ones, 20 amino acids."""
    data = pathlib.Path(os.environ.get("BERT_TF_DATA") or pathlib.Path.home() / ".cache" / "bert_tf_data")
    found = sorted((data / "antiberty").rglob("pytorch_model.bin"))
    if not found:
        pytest.skip(f"needs the weights of AntiBERTy in {data / 'antiberty'}")
    return found[0].parent, data / "antiberty" / "vocab.txt"


def sequences(n, seed=0, masked=0.15, mutated=0.1) -> list[str]:
    """Returns n antibodies, a residue a word, of which some are changed to any other and then some masked."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        words = np.array(list(ANTIBODIES[i % len(ANTIBODIES)]), dtype=object)
        change = rng.random(len(words)) < mutated
        words[change] = rng.choice(RESIDUES, change.sum())
        words[rng.permutation(len(words))[: max(1, round(masked * len(words)))]] = "[MASK]"
        texts.append(" ".join(words))
    return texts


def _answers(antiberty, texts, top_k):
    """Returns the program's answers as `torch_fill_mask.py` writes torch's."""
    directory, vocab_file = antiberty
    filled = [{"text": text, "token": [], "probability": []} for text in texts]
    for answer in Filler(directory, top_k, str(vocab_file), do_lower_case=False)(texts):
        for name in ("token", "probability"):
            filled[answer["id"]][name].append(answer[name])
    return filled


@pytest.mark.slow
def test_antiberty_answers_as_the_golden_says(antiberty):
    """The golden: `tests/goldens/torch_fill_mask.py` on sequences(4, masked=0.04), K = 5."""
    golden = json.loads((GOLDENS / "antiberty.json").read_text(encoding="utf-8"))
    texts = sequences(4, masked=0.04)
    assert [true["text"] for true in golden] == texts
    for ours, true in zip(_answers(antiberty, texts, 5), golden, strict=True):
        assert ours["token"] == true["token"]
        np.testing.assert_allclose(ours["probability"], true["probability"], atol=1e-5)


@pytest.mark.slow
def test_antiberty_on_100_sequences(antiberty, tmp_path):
    texts, vocab = sequences(100, seed=1), antiberty[1].read_text(encoding="utf-8").split()
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    out = tmp_path / "torch.json"
    parity.run_torch("torch_fill_mask.py", *antiberty, tmp_path / "texts.txt", len(vocab), out)
    total = 0
    for ours, true in zip(_answers(antiberty, texts, len(vocab)), json.loads(out.read_text()), strict=True):
        assert [best[0] for best in ours["token"]] == [best[0] for best in true["token"]]
        np.testing.assert_allclose(_by_piece(ours, vocab), _by_piece(true, vocab), atol=1e-5)
        total += len(ours["token"])
    assert total > 1500


def _by_piece(answers, vocab):
    """Returns float [masks, V]: the probabilities in the vocabulary's order."""
    rows = zip(answers["token"], answers["probability"], strict=True)
    shares = [dict(zip(tokens, probabilities, strict=True)) for tokens, probabilities in rows]
    return np.array([[row[piece] for piece in vocab] for row in shares])
