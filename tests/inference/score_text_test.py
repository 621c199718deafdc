"""Scores of texts: against torch, and what must not change them; the program and its files."""

import json
import pathlib
import shutil

import numpy as np
import pyarrow.parquet
import pytest

from bert_tf.inference.score_columns import ScoreMaker
from bert_tf.inference.score_text import TextScorer, perplexity
from tests import real_models, tiny
from tests.inference.fill_mask_test import antiberty  # noqa: F401  (a fixture)
from tests.scripts import run_here

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
MODELS = {"bert": ("pretraining", {}), "electra": ("families/electra-generator", {}),
          "left_to_right": ("pretraining", {"is_decoder": True})}  # fmt: skip
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXTS = ["the film is a good story .", "", "[MASK] xyzzy", "the film film film is ."]


def _golden():
    return json.loads((GOLDENS / "score_text.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "case", ["bert", *(pytest.param(case, marks=pytest.mark.slow) for case in ("electra", "left_to_right"))]
)
def test_each_piece_as_torch_has_it(case, tmp_path):
    """The golden: `tests/goldens/torch_score_text.py make`."""
    name, changes = MODELS[case]
    shutil.copy(GOLDENS / name / "model.safetensors", tmp_path)
    config = json.loads((GOLDENS / name / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    vocab = [*SPECIAL, *(f"w{n}" for n in range(len(SPECIAL), config["vocab_size"]))]
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab))
    scorer, golden = TextScorer(tmp_path), _golden()[case]
    assert scorer.measure == ("log_likelihood" if changes else "pseudo_log_likelihood")
    scores = scorer([" ".join(vocab[n] for n in row["ids"]) for row in golden])
    for score, row in zip(scores, golden, strict=True):
        assert score.tokens == [vocab[n] for n in row["ids"]]
        np.testing.assert_allclose(score.log_probabilities, row["log_probabilities"], rtol=0, atol=1e-5)
        assert score.total == pytest.approx(sum(row["log_probabilities"]), abs=1e-4)


@pytest.fixture(scope="module")
def scorer(pretrained):
    return TextScorer(pretrained)


@pytest.mark.slow
def test_what_a_score_depends_on(scorer, caplog):
    with caplog.at_level("WARNING"):
        scores = scorer(TEXTS)
    assert [score.tokens for score in scores[:2]] == [TEXTS[0].split(), []]
    assert scores[1].total == scores[1].per_token == 0 and scorer([]) == []
    assert scores[2].tokens == ["[UNK]"] * 4  # "[", "mask", "]" and "xyzzy": a mask that is written is text
    assert "4 of 17 tokens are [UNK]" in caplog.text and "max_seq_length" not in caplog.text
    for text, score in zip(TEXTS, scores, strict=True):
        (alone,) = scorer([text])
        np.testing.assert_allclose(alone.log_probabilities, score.log_probabilities, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_batches_of_any_size_are_the_same(scorer, monkeypatch):
    texts = [text for text, _ in tiny.texts(12)]
    scores = scorer(texts)
    for name, value in {"_CHUNK": 5, "_TOKENS": 32, "_LOGITS": 1}.items():
        monkeypatch.setattr(f"bert_tf.inference.score_text.{name}", value)
    for one, other in zip(scores, scorer(texts), strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, rtol=0, atol=1e-5)


def test_what_is_cut_off_is_said(pretrained, caplog):
    with caplog.at_level("WARNING"):
        scores = TextScorer(pretrained, max_seq_length=5)(["the film is good .", "the film is"])
    assert [score.tokens for score in scores] == [["the", "film", "is"]] * 2
    assert "1 of 2 texts exceed `max_seq_length`, 5 tokens" in caplog.text


def test_pairs_are_refused(scorer):
    with pytest.raises(ValueError, match="`texts` must be strings; got tuple at position 0"):
        scorer([("a", "b")])


def test_perplexity_is_e_to_the_mean_loss():
    assert perplexity(-3 * np.log(8), 3) == pytest.approx(8) and np.isnan(perplexity(0.0, 0))


def test_another_option_makes_other_answers(pretrained):
    one = ScoreMaker(pretrained)
    options = ({"max_seq_length": 9}, {"do_lower_case": False}, {"tokens": True})
    others = [ScoreMaker(pretrained, **each) for each in options]
    assert len({json.dumps(maker.identity, sort_keys=True) for maker in (one, *others)}) == 4
    assert one.measure == "pseudo_log_likelihood"


@pytest.fixture(scope="module")
def home( tmp_path_factory):
    folder = tmp_path_factory.mktemp("score_text")
    (folder / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    tiny.write_tsv(folder / "in.tsv", [(str(n), text) for n, text in enumerate(TEXTS)], "n\tsentence")
    tiny.checkpoint(folder / "encoder")
    return folder


CASES = {
    "lines": ["--input_file=HOME/in.txt", "--output_file=HOME/out.jsonl", "--tokens"],
    "arrays": ["--input_file=HOME/in.txt", "--output_file=HOME/out.npz", "--rows_per_chunk=3", "--num_shards=2"],
    "table": ["--input_file=HOME/in.tsv", "--text_column=sentence", "--output_file=HOME/out.parquet"],
}
ARGUMENTS = [*TEXTS[:2], "--tokens", "--header=false"]
BAD = {
    "nothing": ([], "or both --input_file and --output_file; got neither."),
    "no output": (["--input_file=HOME/in.txt"], "--output_file; got --input_file=HOME/in.txt."),
    "both": (["--input_file=HOME/in.txt", "--output_file=HOME/x.npz", "a text"], "got texts as arguments and"),
    "two columns": (["--input_file=HOME/in.tsv", "--text_column=n,sentence", "--output_file=HOME/x.npz"],
                    "--text_column must name a single column; got n,sentence"),
    "form": (["--input_file=HOME/in.txt", "--output_file=HOME/x.txt"], "must end in .npz, .jsonl, .parquet or .csv"),
    "an encoder": (["--model=HOME/encoder", "a text"], "A masked-LM head is required"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(pretrained, home):
    every = {**CASES, "arguments": ARGUMENTS, **{name: arguments for name, (arguments, _) in BAD.items()}}
    return run_here("score_text", home, {name: [f"--model={pretrained}", *words] for name, words in every.items()})


@pytest.mark.slow
def test_every_format_holds_the_scores(scorer, home, said):
    scores = scorer(TEXTS)
    totals, numbers = [score.total for score in scores], [len(score.tokens) for score in scores]
    corpus = f"Pseudo-perplexity: {perplexity(sum(totals), sum(numbers)):.5g}, over 17 tokens of 4 texts."
    for case in CASES:
        assert said[case]["status"] == 0 and corpus in said[case]["log"], said[case]["log"]
    lines = [json.loads(line) for line in (home / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["id"], line["text"]) for line in lines] == [(str(n), text) for n, text in enumerate(TEXTS)]
    for line, score in zip(lines, scores, strict=True):
        assert line["tokens"] == score.tokens
        np.testing.assert_allclose(line["log_probabilities"], score.log_probabilities, atol=1e-5)
    shards = [np.load(home / f"out-{n:05d}-of-00002.npz") for n in range(2)]
    table = pyarrow.parquet.read_table(home / "out.parquet").to_pydict()
    for name, expected in {"pseudo_log_likelihood": totals, "num_tokens": numbers,
                           "per_token": [score.per_token for score in scores]}.items():  # fmt: skip
        for found in ([line[name] for line in lines], np.concatenate([shard[name] for shard in shards]), table[name]):
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_message(case, home, said):
    assert said[case]["status"] == 1 and BAD[case][1].replace("HOME", str(home)) in said[case]["log"], said[case]["log"]


@pytest.mark.slow
def test_scores_of_arguments_are_printed(scorer, said):
    assert said["arguments"]["status"] == 0, said["arguments"]["log"]
    log, (score, _) = said["arguments"]["log"], scorer(TEXTS[:2])
    assert "--header has no effect with arguments." in log and ", over 7 tokens of 2 texts." in log
    lines = log.splitlines()
    (head,) = (n for n, line in enumerate(lines) if line.endswith(f"  {TEXTS[0]}"))
    numbers = [float(word) for word in lines[head].split()[:3]]
    assert numbers == pytest.approx([score.total, score.per_token, 7], abs=1e-3)
    assert [line.split()[1] for line in lines[head + 1 : head + 8]] == score.tokens
    assert lines[head + 8].split() == ["0.0000", "0.0000", "0"]


@pytest.mark.slow
def test_antiberty_as_torch_has_it(antiberty, tmp_path):  # noqa: F811
    """Whole antibodies, each residue masked in turn."""
    texts, out = real_models.antibodies()[4:6], tmp_path / "torch.json"
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    real_models.run(GOLDENS / "torch_score_text.py", "score", *antiberty, tmp_path / "texts.txt", out)
    scorer = TextScorer(antiberty[0], str(antiberty[1]), do_lower_case=False)
    scores, golden = scorer(texts), json.loads(out.read_text())
    for score, row, text in zip(scores, golden, texts, strict=True):
        assert score.tokens == text.split() and len(row["ids"]) == len(score.tokens) > 100
        np.testing.assert_allclose(score.log_probabilities, row["log_probabilities"], rtol=0, atol=1e-4)
        assert score.total == pytest.approx(sum(row["log_probabilities"]), abs=1e-3)
