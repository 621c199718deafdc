"""Probes tell what vectors know from what is learned by heart, and heads are measured as they look."""

import json

import numpy as np
import pytest

from bert_tf.interpret.attention import Attention
from bert_tf.interpret.probing import head_measures
from bert_tf.interpret.probing.control import baselines, control_labels
from bert_tf.interpret.probing.examples import Labelled, read_labelled_texts, read_tagged_words
from bert_tf.interpret.probing.features import compute
from bert_tf.interpret.probing.probe import train_probe
from tests import run_cases, tiny
from tests.interpret.models import with_words

SENTENCES = [("the film is good .", "D N V A ."), ("a bad story is dull", "D A N V A"), ("people see music", "N V N")]


def _columns(path, repeat=12):
    """Writes sentences as columns: word, number, part of speech."""
    blocks = ["\n".join(f"{w} {n} {t}" for n, (w, t) in enumerate(zip(words.split(), tags.split(), strict=True)))
              for words, tags in SENTENCES * repeat]  # fmt: skip
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def bert():
    return with_words()


def test_a_control_word_has_one_label_wherever_it_stands():
    labels = np.array([0, 0, 0, 1] * 100)
    train = [f"w{n % 40}" for n in range(400)]
    given = control_labels(train, [*train, "new", "new"], labels, seed=1)
    by_word = {}
    for word, label in zip([*train, "new", "new"], given.tolist(), strict=True):
        assert by_word.setdefault(word, label) == label
    assert 0.1 < np.mean([by_word[f"w{n}"] for n in range(40)]) < 0.4  # drawn by the labels' shares
    assert np.array_equal(given, control_labels(train, [*train, "new", "new"], labels, seed=1))
    assert not np.array_equal(given, control_labels(train, [*train, "new", "new"], labels, seed=2))


def test_what_is_right_without_vectors():
    found = baselines(["a", "a", "b", "b"], np.array([0, 0, 1, 0]), ["a", "b", "c", "a"], np.array([0, 1, 0, 1]))
    assert found == {"majority": 0.5, "word": 0.75, "seen": 0.75}


@pytest.mark.slow
def test_a_layer_is_right_where_it_knows_and_the_mix_finds_it():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (900, 2)).astype(np.int32)
    values = rng.normal(size=(900, 3, 8)).astype(np.float32)
    values[:, 1] += 3 * rng.normal(size=(3, 8))[labels[:, 0]]  # the second layer knows the first task
    found = train_probe(values[:600], labels[:600], values[600:], labels[600:], 3, seed=0, epochs=40)
    assert found.layers.shape == (2, 3) and found.layers[0, 1] > 0.97 and found.mix[0] > 0.8
    assert max(found.layers[0, 0], found.layers[0, 2], *found.layers[1], found.mix[1]) < 0.5
    assert found.mix_weights[0].argmax() == 1 and found.mix_weights.sum(1) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, *(pytest.param(each, marks=pytest.mark.slow) for each in (tiny.MODERNBERT, tiny.DEBERTA))]
)
def test_features_are_means_of_a_words_pieces_in_all_layers(changes):
    bert = with_words(**changes)
    examples = Labelled(["films a"], [[(0, 5), (6, 7)]], [["films", "a"]], [["N", "D"]], "file")
    found = compute(bert, examples, 16, ".")
    outputs = bert.encoder(bert.tokenizer(["films a"], max_seq_length=5))
    states = np.stack([np.array(each)[0] for each in (outputs["embedding_output"], *outputs["encoder_outputs"])], 1)
    np.testing.assert_allclose(found.values, [states[1:3].mean(0), states[3]], atol=1e-5)
    assert (found.types, found.labels) == (["films", "a"], ["N", "D"])
    cut = compute(bert, examples, 4, ".")
    assert cut.types == ["films"]


def test_words_and_texts_are_read_with_their_labels(tmp_path):
    words = read_tagged_words(_columns(tmp_path / "pos.txt", 1), tag_column=2)
    assert words.labels[0] == ["D", "N", "V", "A", "."] and words.count == 13 and words.words[2][1] == (7, 10)
    some = words.draw(5, seed=0)
    assert 1 <= len(some) <= 2 and words.draw(100, 0).count == 13
    first, second = words.halves(0.34, 0)
    assert sorted([*first.texts, *second.texts]) == sorted(words.texts) and len(second) == 1
    texts = read_labelled_texts(tiny.write_tsv(tmp_path / "t.tsv", [("a film", "0"), ("it is", "1")]))
    assert (texts.types, texts.labels, texts.words) == ([["a"], ["it"]], [["0"], ["1"]], None)


def test_heads_are_measured_as_they_look(bert, monkeypatch):
    """Four heads of one layer: at [CLS], at [SEP], at the word before, everywhere; of "films a" 3 tokens count."""
    weights = np.zeros([1, 4, 5, 5], np.float32)
    weights[0, 0, :, 0] = weights[0, 1, :, 4] = 1
    weights[0, 2, [1, 2, 3], [1, 1, 2]] = 1  # the token of "a" looks at the word before, the others at their own
    weights[0, 3] = 0.2

    def looks(encoder, texts):
        row = dict(texts=("films a",), tokens=["[CLS]", "film", "##s", "a", "[SEP]"], ids=None, segments=None,
                   starts=None, ends=None, of_text=np.array([-1, 0, 0, 0, -1]), words=[None, None],
                   word_of_token=np.array([-1, 0, 0, 1, -1]))  # fmt: skip
        return Attention(**row, weights=weights, heads=np.ones([1, 4], bool))

    monkeypatch.setattr(head_measures, "attention_of", looks)
    monkeypatch.setattr(head_measures, "kept_heads", lambda config: np.array([[True, True, True, True]]))
    found = {name: values[0] for name, values in head_measures.measure_heads(bert, ["films a"]).items()}
    assert tuple(found) == tuple(head_measures.MEASURES)
    np.testing.assert_allclose(found["first"], [1, 0, 0, 0.2], atol=1e-6)
    np.testing.assert_allclose(found["separators"], [0, 1, 0, 0.2], atol=1e-6)
    np.testing.assert_allclose(found["itself"], [0, 0, 1 / 3, 0.2], atol=1e-6)
    np.testing.assert_allclose(found["previous"], [0, 0, 1 / 3, 0.4 / 3], atol=1e-6)
    np.testing.assert_allclose(found["next"], [0, 0, 0, 0.4 / 3], atol=1e-6)
    np.testing.assert_allclose(found["entropy"], [0, 0, 0, np.log2(5)], atol=1e-5)
    np.testing.assert_allclose(found["distance"][2:], [2 / 3, 8 / 9], atol=1e-6)


@pytest.mark.slow
def test_probe_writes_results_and_pages(tmp_path):
    tiny.checkpoint(tmp_path / "model")
    _columns(tmp_path / "pos.txt")
    _columns(tmp_path / "dev.txt", 2)
    (tmp_path / "one.txt").write_text("a X\n\nb X\n", encoding="utf-8")
    model = [f"--model={tmp_path}/model", "--num_train_epochs=2", "--max_seq_length=16"]
    words = [f"--train_file={tmp_path}/pos.txt", f"--eval_file={tmp_path}/dev.txt", f"--output_dir={tmp_path}/out"]
    cases = {
        "words": [*model, *words],
        "heads": [model[0], words[0], words[2], "--heads", "--max_texts=4"],
        "one label": [*model, f"--train_file={tmp_path}/one.txt", words[2]],
        "other column": [*model, *words, "--tag_column=3"],
        "other unit": [*model, *words, "--label_column=x"],
        "a name": [*model, *words, "--text_column=word"],
        "heads of labels": [*model, *words, "--heads"],
    }
    done = {name: run_cases.run_here("probe", words) for name, words in cases.items()}
    assert [done[name]["status"] for name in ("words", "heads")] == [0, 0], done
    found = json.loads((tmp_path / "out" / "probe.json").read_text(encoding="utf-8"))
    assert found["examples"] == {"train": 156, "eval": 26} and found["labels"] == [".", "A", "D", "N", "V"]
    assert [each["layer"] for each in found["layers"]] == [0, 1] and found["baselines"]["word"] == 1
    assert found["layers"][0]["selectivity"] == found["layers"][0]["accuracy"] - found["layers"][0]["control"]
    assert sum(found["mix"]["weights"]) == pytest.approx(1)
    page = (tmp_path / "out" / "probe.html").read_text(encoding="utf-8")
    assert "<svg" in page and "selectivity" in page and "accuracy" in done["words"]["log"]
    measures = json.loads((tmp_path / "out" / "heads.json").read_text(encoding="utf-8"))["measures"]
    assert set(measures) == set(head_measures.MEASURES) and np.shape(measures["next"]) == (1, 2)
    assert "such as [CLS], in %." in (tmp_path / "out" / "heads.html").read_text(encoding="utf-8")
    for name, message in {
        "one label": "at least two labels are required; got ['X']. Choose a column",
        "other column": "missing column 3 (--tag_column). Found 3 columns",
        "other unit": "--label_column requires --unit=text",
        "a name": "--text_column must be a single number for words; got word",
        "heads of labels": "--heads and --eval_file cannot be combined. Remove one",
    }.items():
        assert done[name]["status"] == 1 and message in done[name]["log"], (name, done[name]["log"][-600:])


@pytest.mark.slow
def test_probe_reads_texts_and_pairs(tmp_path):
    tiny.checkpoint(tmp_path / "model")
    rows = [(text, text[::-1], label) for text, label in tiny.texts(30)]
    tiny.write_tsv(tmp_path / "texts.tsv", [row[::2] for row in rows])
    tiny.write_tsv(tmp_path / "pairs.tsv", rows, "a\tb\tkind")
    common = [f"--model={tmp_path}/model", "--unit=text", "--num_train_epochs=2"]
    cases = {
        "texts": [],
        "pairs": ["--text_column=a,b", "--label_column=kind"],
    }
    for name, more in cases.items():
        words = [*common, f"--train_file={tmp_path}/{name}.tsv", f"--output_dir={tmp_path}/{name}", *more]
        done = run_cases.run_here("probe", words)
        assert done["status"] == 0, done["log"]
        found = json.loads((tmp_path / name / "probe.json").read_text(encoding="utf-8"))
        assert found["examples"] == {"train": 24, "eval": 6} and found["unit"] == "text"
        assert found["files"]["eval"] == f"20% of {tmp_path}/{name}.tsv"
