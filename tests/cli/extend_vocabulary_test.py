"""Words added to a checkpoint: what is chosen, what the new rows are, and that nothing else changes."""

import os
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoints import tf1, vocabulary_extension
from bert_tf.checkpoints.loading import load, load_description, save_description
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.checkpoints.vocabulary_extension import Extension
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.word_counts import count_words
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import processes, tiny
from tests.conftest import ROOT
from tests.full_disk import full_disk

TABLE, BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
MEDICAL = (
    "stent", "tachycardia", "bradycardia", "myocarditis", "pericarditis", "angioplasty", "thrombocytopenia",
    "hypokalemia", "hyperkalemia", "hyponatremia", "hypoglycemia", "dyspnea", "hematuria", "proteinuria",
    "hepatomegaly", "splenomegaly", "lymphadenopathy", "pneumothorax", "atelectasis", "bronchiectasis",
    "cholecystectomy", "appendectomy", "laparoscopy", "colonoscopy", "endoscopy", "echocardiogram",
    "electrocardiogram", "troponin", "creatinine", "bilirubin", "furosemide", "metoprolol", "atorvastatin",
    "lisinopril", "metformin", "amlodipine", "omeprazole", "gabapentin", "levothyroxine", "heparinized",
    "warfarin", "clopidogrel", "enoxaparin", "vancomycin", "ceftriaxone", "azithromycin", "nephrolithiasis",
    "diverticulitis", "pancreatitis", "osteomyelitis",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _eagerly():
    """Tracing each tokenizer for a few words would be most of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A Google-like directory whose checkpoint also has a masked-word head's bias and an optimizer's leavings."""
    folder = tiny.checkpoint(tmp_path_factory.mktemp("old"))
    tensors = tf1.read_tensors(os.fspath(folder / "bert_model.ckpt"))
    tensors[BIAS] = np.random.default_rng(0).normal(size=len(tiny.VOCAB)).astype(np.float32)
    tensors[f"{TABLE}/adam_m"], tensors["global_step"] = np.zeros_like(tensors[TABLE]), np.int64(7)
    tf1.write_tensors(os.fspath(folder / "bert_model.ckpt"), tensors)
    return os.fspath(folder)


def tokenizer():
    return WordPieceTokenizer(list(tiny.VOCAB))


def extend(model, output_dir, words):
    description = load_description([model])
    extension = Extension.of(description.tokenizer, words)
    vocabulary_extension.write_extended_model(model, os.fspath(output_dir), extension, description)
    return extension


def arrays(model):
    checkpoint = open_checkpoint(model)
    return {path: checkpoint.get(path) for path in checkpoint.names}


def words_file(tmp_path, content):
    (tmp_path / "words.txt").write_text(content, encoding="utf-8")
    return os.fspath(tmp_path / "words.txt")


def test_rows_are_means_and_nothing_else_changes(old, tmp_path):
    extension = extend(old, tmp_path / "new", ["films", "storys", "zebra"])
    before, after = arrays(old), arrays(os.fspath(tmp_path / "new"))
    size, row = len(tiny.VOCAB), tiny.VOCAB.index
    assert list(before) == list(after)
    for path in set(before) - {TABLE, BIAS}:
        assert before[path].tobytes() == after[path].tobytes(), path
    for path in (TABLE, BIAS):
        was, is_ = before[path], after[path]
        assert len(is_) == size + 3 and was.tobytes() == is_[:size].tobytes()
        np.testing.assert_allclose(is_[size], (was[row("film")] + was[row("##s")]) / 2, atol=1e-7)
        np.testing.assert_allclose(is_[size + 1], (was[row("story")] + was[row("##s")]) / 2, atol=1e-7)
        np.testing.assert_array_equal(is_[size + 2], was[row("[UNK]")])
    assert extension.unknown() == ["zebra"]
    assert extension.lines() == ["  films  =  film ##s", "  storys  =  story ##s", "  zebra  =  [UNK]"]


def test_the_directory_is_a_checkpoint(old, tmp_path):
    extend(old, tmp_path / "new", ["films"])
    assert sorted(os.listdir(tmp_path / "new")) == [
        "bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index", "tokenizer.json",
        "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip
    bert = load(tmp_path / "new")
    assert bert.config.vocab_size == bert.tokenizer.vocab_size == len(tiny.VOCAB) + 1
    assert bert.tokenizer.tokenize(["Films!"]).to_list() == [[len(tiny.VOCAB), 1]]
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.slow
def test_a_table_with_spare_rows_gives_them_to_the_new_words(tmp_path):
    model = os.fspath(tiny.checkpoint(tmp_path / "old", vocab_size=len(tiny.VOCAB) + 2))
    for n, words in enumerate((["films"], ["films", "storys", "peoples"])):
        extend(model, tmp_path / f"new{n}", words)
        table, size = arrays(os.fspath(tmp_path / f"new{n}"))[TABLE], len(tiny.VOCAB)
        assert len(table) == max(size + 2, size + len(words))
        before = arrays(model)[TABLE]
        assert table[:size].tobytes() == before[:size].tobytes()
        assert table[size + len(words) :].tobytes() == before[size + len(words) :].tobytes()
        load(tmp_path / f"new{n}")


def test_a_classifiers_head_and_labels_stay(old, tmp_path):
    tensors = tf1.read_tensors(os.path.join(old, "bert_model.ckpt"))
    tensors = {name: tensors[name] for name in tensors if name != BIAS and not name.endswith(("adam_m", "global_step"))}
    tensors |= {"output_weights": np.ones((2, 32), np.float32), "output_bias": np.zeros(2, np.float32)}
    (tmp_path / "old").mkdir()
    tf1.write_tensors(os.fspath(tmp_path / "old" / "bert_model.ckpt"), tensors)
    save_description(os.fspath(tmp_path / "old"), tiny.config(), tokenizer(), ["bad", "good"])
    extend(os.fspath(tmp_path / "old"), tmp_path / "new", ["films"])
    bert = load(tmp_path / "new")
    assert bert.labels == ["bad", "good"] and bert.head.num_labels == 2


def test_words_of_a_file(tmp_path):
    path = words_file(tmp_path, "Films\r\n\n  stents \nFILM\nfilms\nÉtoile")
    assert vocabulary_extension.read_new_words(path, tokenizer()) == (["films", "stents", "etoile"], ["film"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "stent\nheart attack\n",
            r"words.txt, line 2: a line must contain one word; got 'heart attack'.*\[heart\] \[",
        ),
        ("\n\nbeta-blocker", r"line 3: a line must contain one word; got 'beta-blocker'.*\[beta\] \[-\] \[blocker\]"),
        ("##itis", r"line 1: a line must contain one word; got '##itis'.*\[#\] \[#\] \[itis\]"),
        ("\u200b", r"line 1: a line must contain one word.*: none; list"),
        (f"a\n{'x' * 201}", "line 2: a word must have at most 200 characters; got 201"),
    ],
)
def test_lines_that_are_no_word(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        vocabulary_extension.read_new_words(words_file(tmp_path, content), tokenizer())


def test_nothing_to_add(tmp_path):
    words, known = vocabulary_extension.read_new_words(words_file(tmp_path, "film\ngood\n"), tokenizer())
    assert (words, known) == ([], ["film", "good"])
    message = "No words to add: all candidates are tokens already. Check `words_file`, or lower `min_count`"
    with pytest.raises(ValueError, match=message):
        Extension.of(tokenizer(), words)


def test_the_words_that_save_most_are_chosen():
    pieces = WordPieceTokenizer([*tiny.VOCAB, "1", "##1", "##e", "##r"])
    counts = Counter({"film": 99, "films": 6, "colder": 5, "seer": 6, "goods": 4, "zebra": 50, "11": 50})
    # saved               0            6            10           6           4            0            50, no letter
    assert vocabulary_extension.choose_words(counts, pieces, 10) == ["colder", "films", "seer"]
    assert vocabulary_extension.choose_words(counts, pieces, 1) == ["colder"]
    assert vocabulary_extension.choose_words(counts, pieces, 10, min_count=4) == ["colder", "films", "seer", "goods"]
    assert vocabulary_extension.choose_words(Counter(), pieces, 10) == []


@pytest.mark.slow
def test_longer_words_that_begin_with_a_new_one_are_counted():
    pieces = WordPieceTokenizer([*tiny.VOCAB, "##i"])
    extension = Extension.of(pieces, ["films"])
    said = vocabulary_extension.effect(extension, Counter({"films": 3, "film": 2, "filmsi": 1, "seei": 1}))
    assert said.splitlines() == [
        "Added words make up 3 of the text's 7 words; tokens per word change from 1.857 to 1.286.",
        "Other words that begin with an added one and are now tokenized differently: 1 (1 occurrences).",
        "          1  filmsi: film ##s ##i  ->  films ##i",
    ]


def test_a_word_that_becomes_unknown_is_told():
    pieces = WordPieceTokenizer([*tiny.VOCAB, "##st"])  # films + t has no piece ##t, film + st has
    said = vocabulary_extension.effect(Extension.of(pieces, ["films"]), Counter({"filmst": 2}))
    assert "filmst: film ##st  ->  [UNK]" in said
    assert "become [UNK], because the vocabulary lacks a token for the rest: 1." in said


def test_a_full_disk(old, tmp_path):
    with full_disk(20_000), pytest.raises(ValueError, match="could not be written"):
        extend(old, tmp_path / "new", ["films"])
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_an_output_in_use(old, tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ValueError, match="`output_dir` must not exist yet, or be an empty directory"):
            extend(old, path, ["films"])
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.slow
def test_weights_that_no_row_knows(old, tmp_path):
    tensors = tf1.read_tensors(os.path.join(old, "bert_model.ckpt")) | {"bert/strange": np.zeros(2, np.float32)}
    (tmp_path / "old").mkdir()
    tf1.write_tensors(os.fspath(tmp_path / "old" / "bert_model.ckpt"), tensors)
    save_description(os.fspath(tmp_path / "old"), tiny.config(), tokenizer())
    with pytest.raises(ValueError, match="must contain the weights of an encoder and .*bert/strange"):
        extend(os.fspath(tmp_path / "old"), tmp_path / "new", ["films"])


@pytest.mark.slow
def test_the_program(old, tmp_path):
    sentences = ["The films of storys.", "People see films and storys."] * 5
    (tmp_path / "text.txt").write_text("\n".join(sentences), encoding="utf-8")
    arguments = [f"--input_file={tmp_path / 'text.txt'}", "--num_words=1", f"--output_dir={tmp_path / 'new'}"]
    done = processes.run("-m", "bert_tf", "extend_vocabulary", f"--model={old}", *arguments)
    assert done.returncode == 0, done.stderr
    assert "films  =  film ##s" in done.stdout and "Added words make up 10" in done.stdout
    assert WordPieceTokenizer.from_directory(tmp_path / "new").vocab == [*tiny.VOCAB, "films"]


@pytest.mark.slow
def test_50_medical_words_on_minilm(minilm, tmp_path):
    assert len(set(MEDICAL)) == 50
    file, tokenizer = words_file(tmp_path, "\n".join(MEDICAL)), load_description([minilm]).tokenizer
    words, known = vocabulary_extension.read_new_words(file, tokenizer)
    extend(minilm, tmp_path / "new", words)
    before, after = load(minilm), load(tmp_path / "new")
    size = before.config.vocab_size
    assert after.config.vocab_size == size + len(words) and len(words) + len(known) == 50
    old_arrays, new_arrays = arrays(minilm), arrays(os.fspath(tmp_path / "new"))
    for path, array in old_arrays.items():
        same = new_arrays[path][:size] if path == TABLE else new_arrays[path]
        assert array.tobytes() == same.tobytes(), path
    plain = ["The weather is lovely today.", "He ran to the station."]
    medical = ["The stent was placed; warfarin and metoprolol were given.", "Severe tachycardia, hypokalemia."]
    vectors = [bert.encoder(bert.tokenizer(plain, max_seq_length=16)) for bert in (before, after)]
    for one, other in zip(*(v.values() for v in vectors), strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    lengths = [bert.tokenizer.tokenize(medical).row_lengths().numpy() for bert in (before, after)]
    assert (lengths[1] < lengths[0]).all()


def test_other_vocabularies_than_word_pieces_are_refused():
    tokenizer = ByteBpeTokenizer.from_directory(ROOT / "tests" / "goldens" / "tokenizers" / "byte_bpe")
    with pytest.raises(ValueError, match=r"added to a WordPiece vocabulary.*vocab.json, read by ByteBpeTokenizer"):
        vocabulary_extension.check_is_wordpiece(tokenizer)


TOKENS = (
    AddedToken("[E1]", len(tiny.VOCAB)),
    AddedToken("filmology", len(tiny.VOCAB) + 1, normalized=True),
    AddedToken("music", tiny.VOCAB.index("music"), single_word=True),
)


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory):
    """A folder with three added tokens: two behind vocab.txt, whose rows the table has, and one in it."""
    folder = tiny.checkpoint(tmp_path_factory.mktemp("tokens"), vocab_size=len(tiny.VOCAB) + 2)
    WordPieceTokenizer(list(tiny.VOCAB), added_tokens=TOKENS).save(folder)
    return os.fspath(folder)


@pytest.mark.slow
def test_new_words_stand_behind_the_added_tokens_which_keep_their_rows(with_tokens, tmp_path):
    size = len(tiny.VOCAB) + 2
    extend(with_tokens, tmp_path / "new", ["films", "zebra"])
    before, after = arrays(with_tokens)[TABLE], arrays(os.fspath(tmp_path / "new"))[TABLE]
    assert before[:size].tobytes() == after[:size].tobytes() and len(after) == size + 2
    new = load_description([os.fspath(tmp_path / "new")]).tokenizer
    assert list(new.added_tokens) == sorted(TOKENS, key=lambda token: token.id)
    assert new.tokenize(["[E1] films", "FILMOLOGY zebra"]).to_list() == [[size - 2, size], [size - 1, size + 1]]
    assert new.tokenize(["e1 filmologys films"])[0].numpy().tolist()[-1] == size


@pytest.mark.slow
def test_words_of_added_tokens_are_no_words_of_the_text(with_tokens):
    tokenizer = load_description([with_tokens]).tokenizer
    texts = [["films [E1]films FILMOLOGY filmologyfilms"] * 5]
    counts = count_words(texts, True, tokenizer.between_added_tokens)
    assert counts == {"films": 15} and count_words(texts, True)["filmology"] == 5


def test_an_added_token_that_would_become_a_piece_of_words_is_refused(old):
    added = [AddedToken("filmology", len(tiny.VOCAB), normalized=True, single_word=True)]
    with pytest.raises(ValueError, match="The added token 'filmology' is not matched everywhere"):
        Extension.of(WordPieceTokenizer(list(tiny.VOCAB), added_tokens=added), ["zebra"])
