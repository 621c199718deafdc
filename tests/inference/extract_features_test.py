"""extract_features: google-research/bert's lines by hand, pairs, words, arrays; bad input."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoints.feature_extractor import TokenFeatures
from bert_tf.cli.extract_features import FLAGS
from bert_tf.inference.extract_features import average_words
from tests import tiny
from tests.scripts import run_here

LINES = ["good film ||| the people , see", "", "the naïve  film is goods and good,bad"]
VOCAB = (*tiny.VOCAB, "na", "##ive")
LENGTH = "--max_seq_length=32"
BASE = ["--model=HOME/model", "--input_file=HOME/in.txt", LENGTH]
CASES = {
    "lines": ["--init_checkpoint=HOME/model/bert_model.ckpt", "--bert_config_file=HOME/model/bert_config.json",
              "--vocab_file=HOME/model/vocab.txt", "--input_file=HOME/in.txt", "--layers=-1,-2", "--batch_size=8",
              LENGTH, "--use_one_hot_embeddings", "--master=x", "--output_file=HOME/lines.jsonl"],
    "named": [*BASE, "--layers=weighted_sum_all", "--unit=word", "--output_file=HOME/named.jsonl"],
    "arrays": [*BASE, "--layers=0,-1", "--output_file=HOME/arrays.npz"],
    "texts": [*BASE, "--layers=second_to_last", "--pooling=mean_max", "--output_file=HOME/texts.npz"],
    "table": ["--model=HOME/model", "--input_file=HOME/in.tsv", "--text_column=one,two", "--layers=last",
              "--pooling=cls", LENGTH, "--output_file=HOME/table.npz"],
    "short": [*BASE, "--max_seq_length=6", "--layers=-1", "--unit=word", "--output_file=HOME/short.jsonl"],
}  # fmt: skip
OUT = "--output_file=HOME/bad.npz"
BAD = {
    "layers": ([*BASE, OUT, "--layers=top"], "--layers must be one of embeddings, second_to_last, last, "),
    "index": ([*BASE, OUT, "--layers=-1,2"], "--layers must be layer indices from -2 to 1, because the model "
                                             "has 2 layers; got 2."),
    "shallow": ([*BASE, OUT, "--layers=concat_last_4"], "--layers=concat_last_4 requires a model with at least 4"),
    "both": ([*BASE, OUT, "--layers=-1", "--pooling=mean", "--unit=word"], "--pooling=mean and --unit=word cannot be"),
    "length": ([*BASE, OUT, "--layers=-1", "--max_seq_length=64"], "--max_seq_length must be from 3 to 32"),
    "no model": ([*BASE[1:], OUT], "Pass either --model or --init_checkpoint; got neither."),
    "two models": ([*BASE, "--init_checkpoint=x", OUT], "got both."),
    "no checkpoint": (["--model=HOME/none", *BASE[1:], OUT], "HOME/none"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extract_features")
    tiny.checkpoint(folder / "model", vocab=VOCAB, vocab_size=len(VOCAB), num_hidden_layers=2)
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    tiny.write_tsv(folder / "in.tsv", [("good film", "the people"), ("a", "bad story")], "one\ttwo")
    return folder


@pytest.fixture(scope="module")
def results(home):
    """{case: {"status", "log"}} of all command lines, run one after the other."""
    every = {**CASES, **{name: arguments for name, (arguments, _) in BAD.items()}}
    return run_here("extract_features", home, every)


@pytest.fixture(scope="module")
def bert(home):
    return bert_tf.load(home / "model")


def _row(bert, *texts):
    """Returns the tokens of a text or a pair alone, and what each block makes of them, [2, S, H]."""
    inputs = bert.tokenizer(*([text] for text in texts), max_seq_length=32)
    count = int(inputs["input_mask"].numpy().sum())
    blocks = bert.encoder(inputs)["encoder_outputs"]
    tokens = [VOCAB[n] for n in inputs["input_ids"].numpy()[0, :count]]
    return tokens, np.array([block.numpy()[0, :count] for block in blocks])


def _lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_each_command_line_ends_well(results, case):
    assert results[case]["status"] == 0, results[case]["log"]


@pytest.mark.slow
def test_lines_are_google_s(home, results, bert):
    ignored = "These flags have no effect: --master, --batch_size, --use_one_hot_embeddings."
    assert ignored in results["lines"]["log"]
    lines = _lines(home / "lines.jsonl")
    for n, (line, texts) in enumerate(zip(lines, [LINES[0].split(" ||| "), LINES[1:2], LINES[2:]], strict=True)):
        tokens, blocks = _row(bert, *texts)
        assert list(line) == ["linex_index", "features"] and line["linex_index"] == n
        assert [each["token"] for each in line["features"]] == tokens
        for place, each in enumerate(line["features"]):
            assert list(each) == ["token", "layers"] and [part["index"] for part in each["layers"]] == [-1, -2]
            for part in each["layers"]:
                assert list(part) == ["index", "values"]
                assert part["values"] == [round(value, 6) for value in part["values"]]
                np.testing.assert_allclose(part["values"], blocks[part["index"], place], atol=2e-6)
    assert lines[0]["features"][3]["token"] == "[SEP]" and len(lines[1]["features"]) == 2


@pytest.mark.slow
def test_words_are_the_means_of_their_tokens(home, results, bert):
    line = _lines(home / "named.jsonl")[2]
    tokens, blocks = _row(bert, LINES[2])
    assert tokens[1:] == ["the", "na", "##ive", "film", "is", "good", "##s", "and", "good", ",", "bad", "[SEP]"]
    assert [each["token"] for each in line["features"]] == ["the", "naïve", "film", "is", "goods", "and", "good,bad"]
    values = blocks.mean(0)
    expected = [values[1], values[2:4].mean(0), *values[4:6], values[6:8].mean(0), values[8], values[9:12].mean(0)]
    for each, vector in zip(line["features"], expected, strict=True):
        assert [part["index"] for part in each["layers"]] == ["weighted_sum_all"]
        np.testing.assert_allclose(each["layers"][0]["values"], vector, atol=2e-6)
    assert [each["token"] for each in _lines(home / "short.jsonl")[2]["features"]] == ["the", "naïve", "film"]


@pytest.mark.slow
def test_arrays_hold_tokens_with_their_places_and_vectors(home, results, bert):
    arrays = np.load(home / "arrays.npz")
    rows = [_row(bert, *texts) for texts in (LINES[0].split(" ||| "), LINES[1:2], LINES[2:])]
    assert arrays["tokens"].tolist() == [token for tokens, _ in rows for token in tokens]
    assert arrays["features_splits"].tolist() == np.cumsum([0] + [len(tokens) for tokens, _ in rows]).tolist()
    expected = np.concatenate([np.concatenate(blocks, -1) for _, blocks in rows])
    np.testing.assert_allclose(arrays["features"], expected, atol=2e-6)
    first = slice(*arrays["starts_splits"][:2])
    assert arrays["of_text"][first].tolist() == [-1, 0, 0, -1, 1, 1, 1, 1, -1]
    assert arrays["starts"][first].tolist() == [0, 0, 5, 0, 0, 4, 11, 13, 0]
    assert arrays["ends"][first].tolist() == [0, 4, 9, 0, 3, 10, 12, 16, 0]


@pytest.mark.slow
def test_a_vector_for_each_text(home, results, bert):
    vectors = np.load(home / "texts.npz")["embeddings"]
    values = [_row(bert, *texts)[1][0] for texts in (LINES[0].split(" ||| "), LINES[1:2], LINES[2:])]
    np.testing.assert_allclose(vectors, [[*each.mean(0), *each.max(0)] for each in values], atol=2e-6)
    of_table = np.load(home / "table.npz")["embeddings"]
    pairs = (("good film", "the people"), ("a", "bad story"))
    np.testing.assert_allclose(of_table, [_row(bert, *pair)[1][1, 0] for pair in pairs], atol=2e-6)


def test_words_of_two_texts_and_of_none():
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    places = np.array([[0, 0, 2, 0, 1, 0], [0, 1, 4, 0, 2, 0], [-1, 0, 0, -1, 1, -1]], np.int32)
    words = average_words(("a\u3000bc", " d"), TokenFeatures(list("<abc>d"), values, *places))
    assert words.tokens == ["a", "bc", "d"] and words.values.tolist() == [[2, 3], [4, 5], [8, 9]]
    assert (words.starts.tolist(), words.ends.tolist(), words.of_text.tolist()) == ([0, 2, 1], [1, 4, 2], [0, 0, 1])
    nothing = average_words("", TokenFeatures(["<", ">"], values[:2], *places[:, [0, 5]]))
    assert nothing.tokens == [] and nothing.values.shape == (0, 2) and nothing.starts.shape == (0,)


def test_the_flags_of_google_are_there():
    defaults = {flag.name: flag.default for flag in FLAGS}
    google = {"input_file": None, "output_file": None, "layers": "-1,-2,-3,-4", "bert_config_file": None,
              "max_seq_length": 128, "init_checkpoint": None, "vocab_file": None, "batch_size": 32, "use_tpu": False,
              "master": None, "num_tpu_cores": 8, "use_one_hot_embeddings": False}  # fmt: skip
    assert google.items() <= defaults.items() and defaults["do_lower_case"] is None  # Google: True


@pytest.mark.slow
@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_message(home, results, case):
    result, message = results[case], BAD[case][1].replace("HOME", str(home))
    assert result["status"] == 1 and message in result["log"] and "Traceback" not in result["log"], result["log"]
    assert not (home / "bad.npz").exists()
