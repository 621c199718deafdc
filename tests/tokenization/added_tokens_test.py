"""Added tokens in texts: every flag, for every kind of tokenizer, against Hugging Face's; and all entries of ours."""

import functools
import json
import pathlib
import unicodedata

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.models import family_registry
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.tokenization.byte_bpe import ByteBpeTokenizer
from bert_tf.tokenization.mask_reader import MaskReader
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.tokenization.wordpiece import WordPieceTokenizer

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
TRACED = ("test_tf_data_finds_them", "test_a_saved_model_finds_them_and_without_them_nothing_is_looked_for")
NAMES = ("wordpiece", "wordpiece_cased", "byte_bpe", "byte_bpe_with_space", "unigram", "unigram_in_front")


@pytest.fixture(autouse=True)
def _eagerly(request):
    """Tracing a graph for each tokenizer would be most of the time."""
    tf.config.run_functions_eagerly(request.node.originalname not in TRACED)
    yield
    tf.config.run_functions_eagerly(False)


@functools.cache
def golden():
    return json.loads((GOLDENS / "added_tokens.json").read_text(encoding="utf-8"))


def with_tokens(tokenizer, tokens):
    """Returns a tokenizer without added tokens with these."""
    added = [AddedToken(id=tokenizer.vocab_size + n, **token) for n, token in enumerate(tokens)]
    options = {"template": tokenizer.template, "added_tokens": added} | tokenizer.settings
    if isinstance(tokenizer, ByteBpeTokenizer):
        vocab = {token: n for n, token in enumerate(tokenizer.vocab)}
        return ByteBpeTokenizer(vocab, tokenizer.merges, vocab_file=tokenizer.vocab_file, **options)
    source = tokenizer.vocab_file if isinstance(tokenizer, UnigramTokenizer) else tokenizer.vocab
    return type(tokenizer)(source, **options)


def plain(name):
    """Returns a tokenizer without added tokens."""
    if name.startswith("wordpiece"):
        return WordPieceTokenizer(golden()["words"], do_lower_case=name == "wordpiece")
    if name.startswith("byte_bpe"):
        tokenizer = ByteBpeTokenizer.from_directory(GOLDENS / "byte_bpe")
        tokenizer.add_prefix_space = name.endswith("with_space")
        return tokenizer
    family = family_registry.family("xlm-roberta") if name.endswith("in_front") else None
    return UnigramTokenizer.from_directory(GOLDENS / "unigram", family=family)


@functools.cache
def make(name):
    """Returns a tokenizer with the golden's tokens."""
    return with_tokens(plain(name), golden()["tokens"])


def words(*more, **options):
    """Returns a WordPiece tokenizer with these added tokens: each a content, or the fields of one."""
    tokens = [{"content": each} if isinstance(each, str) else each for each in more]
    return with_tokens(WordPieceTokenizer(golden()["words"], **options), tokens)


def read(tokenizer, text):
    """Returns the tokens of a text, and the parts of it that they came from."""
    ids, starts, ends = (each.to_list()[0] for each in tokenizer.tokenize_with_offsets([text]))
    return [tokenizer.vocab[i] for i in ids], [text[a:b] for a, b in zip(starts, ends, strict=True)]


def bare(text, start, end):
    """Returns a span without white space at its ends; all empty ones are alike."""
    inner = text[start:end].strip()
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return (start, start + len(inner)) if inner else None


def folded(text):
    """Returns what normalizers leave of a text, as far as the golden's tokens are concerned."""
    chars = (char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) not in ("Mn", "Cf"))
    return " ".join("".join(chars).lower().split())


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_offsets_are_those_of_the_rust_tokenizers(name):
    tokenizer, texts = make(name), golden()["texts"]
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(texts))
    rows = zip(texts, ids, starts, ends, golden()[name], strict=True)
    added, seen = {token.id: token for token in tokenizer.added_tokens}, set()
    for text, own, first, last, (theirs, offsets) in rows:
        assert own == theirs, text
        ours = list(zip(first, last, strict=True))
        for number, (start, end) in zip(own, ours, strict=True):
            if number in added:
                token = added[number]
                content, there = token.content.strip(), text[start:end]
                assert folded(there) == folded(content) if token.normalized else there == content, text
        if name == "byte_bpe":  # theirs slip elsewhere: with spaces that were put in, and where accents went
            spans = zip(offsets[::2], offsets[1::2], strict=True)
            assert [bare(text, *span) for span in ours] == [bare(text, *span) for span in spans], text
        seen |= {*own}
    assert seen >= added.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wordpiece", "wordpiece_cased", "byte_bpe_with_space", "unigram"])
def test_a_text_is_read_the_same_in_a_batch(name):
    """Marks with which a text begins, and which are taken out, change nothing of the text before it."""
    tokenizer = with_tokens(plain(name), [{"content": "covid", "normalized": True, "rstrip": True}])
    texts = ["a covid", "\u0301covid ", "a ", "\u0301 covid \u0301", "\u0301", "covid", "\u0301a"]
    whole = [each.to_list() for each in tokenizer.tokenize_with_offsets(texts)]
    for n, text in enumerate(texts):
        alone = [each.to_list()[0] for each in tokenizer.tokenize_with_offsets([text])]
        assert alone == [each[n] for each in whole], text


def test_added_tokens_have_the_ids_behind_the_vocabulary():
    tokenizer = words("[E1]", {"content": "covidology", "normalized": True})
    without = WordPieceTokenizer(golden()["words"])
    size = without.vocab_size
    assert read(without, "[E1] covidology")[0] == ["[", "e", "##1", "]", "co", "##vid", "##ology"]
    assert read(tokenizer, "[E1] covidology") == (["[E1]", "covidology"], ["[E1]", "covidology"])
    assert tokenizer.tokenize(["[E1] covidology"]).to_list() == [[size, size + 1]]
    assert tokenizer.vocab[size:] == ["[E1]", "covidology"] == tokenizer.written_tokens[size:]
    assert tokenizer.vocab_size == size + 2


def test_flags_of_added_tokens():
    found = read(words("<>"), "a <> b")
    assert found == (["a", "<>", "b"], ["a", "<>", "b"])
    one = words({"content": "<>", "single_word": True})
    assert read(one, "a<> <>b <>, <>")[0] == ["a", "<", ">", "<", ">", "b", "<>", ",", "<>"]
    lower = words({"content": "Caf\u00e9", "normalized": True})
    assert read(lower, "CAFE\u0301a cafe") == (["Caf\u00e9", "a", "Caf\u00e9"], ["CAFE\u0301", "a", "cafe"])
    assert read(words("Caf\u00e9"), "CAF\u00c9 Caf\u00e9")[0] == ["[UNK]", "Caf\u00e9"]
    bpe = make("byte_bpe")
    brackets = [t for t in bpe.added_tokens if t.content[0] == "<" and not (t.single_word or t.normalized)]
    strips = {(token.lstrip, token.rstrip): token.content for token in brackets}
    around = {flags: read(bpe, f"a {content} a")[0] for flags, content in strips.items()}
    assert around == {
        (False, False): ["a", "\u0120", strips[False, False], "\u0120a"],
        (True, False): ["a", strips[True, False], "\u0120a"],
        (False, True): ["a", "\u0120", strips[False, True], "a"],
        (True, True): ["a", strips[True, True], "a"],
    }


def test_of_tokens_that_overlap_the_first_counts_and_then_the_longest():
    tokenizer = words("[E1]", "[E1]x", "1]xa", {"content": "covid", "normalized": True},
                      {"content": "covidology", "normalized": True, "single_word": True})  # fmt: skip
    assert read(tokenizer, "[E1]xa")[0] == ["[E1]x", "a"]
    assert read(tokenizer, "covids")[0] == ["covid", "s"]
    # The longest was found, and is none: as in Hugging Face's tokenizers no shorter one is looked for there.
    assert read(tokenizer, "covidologys")[0] == ["co", "##vid", "##ology", "##s"]


def test_special_tokens_of_the_template_stay_text():
    tokenizer = words("[E1]")
    assert read(tokenizer, "[CLS][E1][MASK]")[0] == ["[", "[UNK]", "]", "[E1]", "[", "[UNK]", "]"]
    without = [word for word in golden()["words"] if word != "[MASK]"]
    behind = WordPieceTokenizer(without, added_tokens=[AddedToken("[MASK]", 40)])
    assert behind.mask_id == 40 and read(behind, "[MASK]")[0] == ["[", "[UNK]", "]"]
    rows = tokenizer(["a [E1]"], ["[E1]"], 8)["input_ids"].numpy().tolist()
    own = tokenizer.vocab.index("[E1]")
    assert rows == [[2, 13, own, 3, own, 3, 0, 0]]


def test_an_added_token_is_a_word():
    tokenizer = words("[E1]")
    own = tokenizer.vocab.index("[E1]")
    ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_by_words(["covid[E1] a", "", "[E1]"]))
    assert ids == [[[6, 7], [own], [13]], [], [[own]]]
    assert starts == [[[0, 2], [5], [10]], [], [[0]]] and ends == [[[2, 5], [9], [11]], [], [[4]]]


def test_masks_are_read_between_added_tokens():
    reader = MaskReader(words("[E1]"))
    own = reader.vocab.index("[E1]")
    assert reader.tokenize(["[E1][MASK] a", "[MASK][E1]"]).to_list() == [[own, 4, 13], [4, own]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wordpiece", "byte_bpe_with_space", "unigram"])
def test_saving_and_reading_gives_the_same_tokenizer(name, tmp_path):
    tokenizer = make(name)
    tokenizer.save(tmp_path)
    kind, settings = type(tokenizer), json.loads(json.dumps(tokenizer.settings))
    for again in (
        kind.from_directory(tmp_path, template=tokenizer.template),
        kind.from_saved(tmp_path, tokenizer.template, settings),
    ):
        assert list(again.added_tokens) == list(tokenizer.added_tokens) and again.vocab == tokenizer.vocab
        assert again.tokenize(golden()["texts"]).to_list() == tokenizer.tokenize(golden()["texts"]).to_list()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["byte_bpe", "unigram"])
def test_tf_data_finds_them(name):
    tokenizer, texts = make(name), golden()["texts"]
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(64).map(tokenizer.tokenize)
    assert [row for batch in batches for row in batch.to_list()] == [ids for ids, _ in golden()[name]]


@pytest.mark.slow
def test_a_saved_model_finds_them_and_without_them_nothing_is_looked_for(tmp_path):
    texts, specs = golden()["texts"][:40], [tf.TensorSpec([None], tf.string)]
    kinds = []
    for number, tokenizer in enumerate((plain("wordpiece"), make("wordpiece"))):
        module = tf.Module()
        module.tokenizer = tokenizer
        module.ids = tf.function(tokenizer.tokenize, specs, autograph=False)
        tf.saved_model.save(module, tmp_path / str(number))
        served = tf.saved_model.load(tmp_path / str(number))
        saved = saved_model_pb2.SavedModel.FromString((tmp_path / str(number) / "saved_model.pb").read_bytes())
        written = {name.rsplit("_", 1)[0] for name in saved.meta_graphs[0].object_graph_def.concrete_functions}
        # Besides those of tables, `ids` and the signature around it: none of the tokenizer that nobody calls.
        tables = {f"__inference__{what}" for what in ("creator", "initializer", "destroyer")}
        assert written - tables == {"__inference_tokenize", "__inference_signature_wrapper"}
        functions = served.ids.concrete_functions[0].graph.as_graph_def().library.function
        kinds.append({node.op for function in functions for node in function.node_def})
    assert served.ids(tf.constant(texts)).to_list() == [ids for ids, _ in golden()["wordpiece"][:40]]
    assert "StaticRegexReplace" in kinds[1] - kinds[0] and "StringSplitV2" in kinds[1] - kinds[0]
    without = plain("wordpiece")
    assert "added_tokens" not in without.settings and list(without.added_tokens) == []


def test_text_between_added_tokens():
    assert plain("wordpiece").between_added_tokens(["a [E1]"]).numpy().tolist() == [b"a [E1]"]
    assert words("[E1]").between_added_tokens(["a [E1]b"]).numpy().tolist() == [b"a ", b"b"]


@pytest.mark.parametrize(
    "token, message",
    [
        (AddedToken("[E1]", 45), r"`added_tokens`: the id .* got '\[E1\]' with the id 45 instead of 41"),
        (AddedToken("[E1]", 7), r"with the id 7 instead of 41"),
        (AddedToken("covid", -1), r"with the id -1 instead of 41"),
        (AddedToken("co", 41), r"got 'co' with the id 41 instead of 6"),
        (AddedToken("", 41), "must be a text"),
        (AddedToken("\ud800", 41), "must be a text in valid UTF-8"),
        (AddedToken("\u0301", 41, normalized=True), "normalizer removes entirely"),
    ],
)
def test_a_token_that_does_not_go_with_the_vocabulary_is_refused(token, message):
    with pytest.raises(ValueError, match=message):
        WordPieceTokenizer(golden()["words"], added_tokens=[token])


def test_two_tokens_of_one_text_or_one_id_are_refused():
    with pytest.raises(ValueError, match="must have one id"):
        WordPieceTokenizer(golden()["words"], added_tokens=[AddedToken("[E1]", 41), AddedToken("[E1]", 42)])
    with pytest.raises(ValueError, match=r"'\[E2\]' with the id 41 instead of 42"):
        WordPieceTokenizer(golden()["words"], added_tokens=[AddedToken("[E1]", 41), AddedToken("[E2]", 41)])
