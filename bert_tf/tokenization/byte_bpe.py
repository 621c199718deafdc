"""Byte-level BPE in graph ops, as in GPT-2 (Radford et al. 2019, section 2.2; openai/gpt-2), RoBERTa and ModernBERT.

A text is split into words, each including the space before it. The bytes of a word are its first tokens; then adjacent
tokens are merged in the order in which the merges were learned. The vocabulary is read from vocab.json
and merges.txt, or from tokenizer.json.
"""

import functools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.models.family import InputTemplate
from bert_tf.tokenization import file_precedence, tokenizer_json_writer
from bert_tf.tokenization.added_token_matcher import Normalized
from bert_tf.tokenization.added_tokens import AddedToken, added_tokens_config
from bert_tf.tokenization.base_tokenizer import BaseTokenizer, TokenList
from bert_tf.tokenization.characters import CODE_POINTS, WHITE, assigned
from bert_tf.tokenization.flat_ops import lower_bound, shift, utf8_lengths
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, case_setting, check_tokenizer_config
from bert_tf.tokenization.tokenizer_json import WHOLE_FILE, check_vocab
from bert_tf.utils.files import brief, read_text, write_text
from bert_tf.utils.json_files import read_object

# === Byte pairs ===
# Text to byte-level BPE ids, independent of the file format.


_LETTER, _NUMBER, _SPACE, _OTHER = range(4)
_BLANK, _APOSTROPHE = 0x20, 0x27
_CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_NEVER = np.int64(1) << 62


def byte_symbols() -> list[str]:
    """Returns the character that represents each of the 256 bytes in vocabulary files."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    codes = dict(zip(printable, printable, strict=True)) | {byte: 256 + n for n, byte in enumerate(others)}
    return [chr(codes[byte]) for byte in range(256)]


@functools.cache
def _classes() -> np.ndarray:
    """uint8 [code points]: letter, number, white space or something else."""
    classes = np.full(CODE_POINTS, _OTHER, np.uint8)
    for code, _, category in assigned():
        classes[code] = {"L": _LETTER, "N": _NUMBER}.get(category[0], _OTHER)
    classes[list(WHITE)] = _SPACE
    return classes


class _BpeTokens(NamedTuple):
    """Neighbouring tokens of all words: `ids`, the `words` that they are of, and where each `begins` in bytes."""

    ids: tf.Tensor
    words: tf.Tensor
    begins: tf.Tensor


class BytePairs(tf.Module):
    """Converts texts to byte-level BPE token ids.

    Args:
        vocab: token -> id, in the characters of `byte_symbols`.
        merges: pairs of tokens, in the order they were learned.

    Raises:
        ValueError: a byte or the result of a merge has no id.
    """

    def __init__(self, vocab: dict[str, int], merges: list[tuple[str, str]]):
        super().__init__()
        bytes_ = [vocab.get(symbol) for symbol in byte_symbols()]
        lacking = [a + b for a, b in merges if not {a, b, a + b} <= vocab.keys()]
        if None in bytes_ or lacking:
            lacks = f"the merge of {lacking[0]!r}" if lacking else f"byte {bytes_.index(None)}"
            raise ValueError(f"The byte-level vocabulary is incomplete: it lacks {lacks}. Use the complete files.")
        self._width = max(vocab.values(), default=0) + 1
        pairs = np.array([[vocab[a], vocab[b], vocab[a + b]] for a, b in merges], np.int64).reshape(-1, 3)
        pairs = pairs if len(pairs) else np.array([[-1, 0, 0]])  # a table must not be empty
        keys, values = pairs[:, 0] * self._width + pairs[:, 1], np.arange(len(pairs)) * self._width + pairs[:, 2]
        _, first = np.unique(keys, return_index=True)  # of a merge that occurs twice the first counts
        with tf.init_scope(), tf.device("CPU:0"):
            self._bytes, self._kinds = tf.constant(bytes_, tf.int32), tf.constant(_classes())
            rows = tf.lookup.KeyValueTensorInitializer(tf.constant(keys[first]), tf.constant(values[first]))
            self._merges = tf.lookup.StaticHashTable(rows, _NEVER)

    def __call__(self, texts):
        """Returns ids, starts, ends: RaggedTensors int32 [n, (tokens)].

        A token came from text[start:end] in code points, without surrounding white space; the tokens of one
        character share its span.
        """
        chars = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        codes, rows = chars.flat_values, tf.cast(chars.value_rowids(), tf.int32)
        word_of_char = tf.cumsum(tf.cast(self._begins(codes, rows), tf.int32)) - 1
        lengths = utf8_lengths(codes)
        data = tf.io.decode_raw(tf.strings.unicode_encode(codes[tf.newaxis], "UTF-8"), tf.uint8)[0]
        char_of_byte = tf.repeat(tf.range(tf.size(codes)), lengths)
        words = tf.gather(word_of_char, char_of_byte)
        ids = tf.gather(self._bytes, tf.cast(data, tf.int32))
        tokens = self._merged(_BpeTokens(ids, words, tf.range(tf.size(ids))))
        lasts = tf.concat([tokens.begins[1:], tf.shape(data)], 0)[: tf.size(tokens.ids)] - 1
        starts, ends = self._extents(codes, tf.gather(char_of_byte, tokens.begins), tf.gather(char_of_byte, lasts))
        row = tf.gather(rows, tf.gather(char_of_byte, tokens.begins))
        origin = tf.gather(tf.cast(chars.row_starts(), tf.int32), row)
        row, nrows = tf.cast(row, tf.int64), tf.size(texts, tf.int64)
        ids = tf.RaggedTensor.from_value_rowids(tokens.ids, row, nrows=nrows, validate=False)
        return ids, ids.with_flat_values(starts - origin), ids.with_flat_values(ends - origin)

    def _begins(self, codes, rows):
        """Returns bool [characters], where a word begins, equivalent to GPT-2's regular expression."""
        kinds = tf.cast(tf.gather(self._kinds, codes), tf.int32)
        first = tf.concat([[True], rows[1:] != rows[:-1]], 0)[: tf.size(codes)]
        before = tf.where(first, -1, shift(kinds, 1))
        after_blank = ~first & (shift(codes, 1) == _BLANK)
        space = kinds == _SPACE
        lonely = space & ~shift(tf.concat([space & ~first, [False]], 0)[: tf.size(codes)], -1)  # none follows it
        short, inside, behind = self._contractions(codes, first, before, after_blank)
        is_last = tf.concat([rows[1:] != rows[:-1], [True]], 0)[: tf.size(rows)]  # of its text
        last_space = lonely & ~is_last & (before == _SPACE)
        begins = first | (kinds != before) & ~(after_blank & ~space) | last_space
        return (begins | short | behind) & ~inside

    def _contractions(self, codes, first, before, after_blank):
        """Returns apostrophes that begin 's or the like, their rest, and what follows: bool [characters] each."""
        can = (codes == _APOSTROPHE) & (first | ((before != _OTHER) & ~after_blank))
        inner = tf.where(first, 0, codes)  # 0: no letter, another text begins
        after = shift(inner, -1), tf.where(shift(inner, -1) == 0, 0, shift(inner, -2))
        lengths = tf.zeros_like(codes)
        for text in reversed(_CONTRACTIONS):
            same = [letters == ord(letter) for letters, letter in zip(after, text[1:], strict=False)]
            lengths = tf.where(functools.reduce(tf.logical_and, same, can), len(text), lengths)
        short = lengths > 0
        inside = shift(short, 1) | shift(lengths == 3, 2)
        behind = shift(lengths == 2, 2) | shift(lengths == 3, 3)
        return short, inside, behind

    def _merged(self, tokens):
        """Merges the earliest-learned pair in all words at once, until no word has one left."""

        def candidates(tokens):
            same = tf.concat([tokens.words[1:] == tokens.words[:-1], [False]], 0)[: tf.size(tokens.ids)]
            left, right = tf.cast(tokens.ids, tf.int64), tf.cast(shift(tokens.ids, -1), tf.int64)
            return tf.where(same, self._merges.lookup(left * self._width + right), _NEVER)

        def merge(ids, words, begins, ranks):
            best = tf.gather(tf.math.segment_min(ranks, words), words)
            chosen = (ranks == best) & (ranks != _NEVER)
            at = tf.range(tf.size(ids))
            begun = tf.where(chosen & ~shift(chosen, 1), at, 0)  # where three alike meet, the first two merge
            chosen &= (at - _latest(begun)) % 2 == 0
            made = tf.cast(ranks % self._width, ids.dtype)
            kept = tf.where(~shift(chosen, 1))[:, 0]
            merged = _BpeTokens(*(tf.gather(x, kept) for x in (tf.where(chosen, made, ids), words, begins)))
            return *merged, candidates(merged)

        loop = (*tokens, candidates(tokens))
        shapes = (tf.TensorShape([None]),) * 4
        *merged, _ = tf.while_loop(lambda *state: tf.reduce_any(state[3] != _NEVER), merge, loop, shapes)
        return _BpeTokens(*merged)

    def _extents(self, codes, first, last):
        """Returns the span of each token in code points of all texts, without surrounding white space."""
        space = codes == _BLANK
        solid = tf.cumsum(tf.cast(~space, tf.int32))
        at = tf.where(~space)[:, 0]
        before, until = tf.gather(solid, first) - tf.cast(~tf.gather(space, first), tf.int32), tf.gather(solid, last)
        empty = before == until
        at = tf.concat([tf.cast(at, tf.int32), [0]], 0)
        starts = tf.where(empty, last + 1, tf.gather(at, before))
        return starts, tf.where(empty, last + 1, tf.gather(at, until - 1 + tf.cast(empty, tf.int32)) + 1)


def _latest(positions):
    """int32 [n]: the last of the positions so far that is not 0; where there is none, 0."""
    there = positions > 0
    return tf.gather(tf.concat([[0], tf.boolean_mask(positions, there)], 0), tf.cumsum(tf.cast(there, tf.int32)))


# === Normalization ===


def compose_characters(texts) -> Normalized:
    """Normalizes texts, strings [n] in UTF-8, to Unicode's NFC: a letter and its accent become one character."""
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
    normalized, offsets = tf_text.normalize_utf8_with_offsets_map(texts, "NFC")
    chars, originals = (tf.strings.unicode_decode(each, "UTF-8") for each in (normalized, texts))
    # Places between characters, with both ends of each text: the operation does not take texts without places.
    places = tf.concat([chars, tf.zeros([tf.size(texts), 1], tf.int32)], 1)
    rows = places.value_rowids()
    first_byte = tf.cumsum(utf8_lengths(places.flat_values), exclusive=True)
    first_byte -= tf.gather(first_byte, tf.gather(places.row_starts(), rows))
    found = tf_text.find_source_offsets(offsets, places.with_flat_values(tf.cast(first_byte, tf.int64)))
    # Bytes and characters of the originals are counted over all texts.
    bytes_before = tf.gather(tf.cumsum(tf.strings.length(texts), exclusive=True), rows)
    begins = tf.cumsum(utf8_lengths(originals.flat_values), exclusive=True)
    chars_before = lower_bound(begins, tf.cast(found.flat_values, tf.int32) + bytes_before)
    found = found.with_flat_values(tf.cast(chars_before - tf.gather(originals.row_starts(), rows), tf.int32))
    starts, ends = found[:, :-1].flat_values, found[:, 1:].flat_values
    return Normalized(chars, tf.minimum(starts, ends - 1), ends)  # of one that became several, all came from it


# === Tokenizer ===


VOCAB_FILE, MERGES_FILE = "vocab.json", "merges.txt"
_LARGEST = 16 * 2**20  # bytes of a file: 300,000 tokens and their merges
_REMEDY = "use the files of a model with byte-level BPE"
_HEAD = "#version"  # of merges.txt: its first line may be a comment that begins so
_NO_SPACE = r"(?s)[^ ].*"  # a text that begins with something else than a space


class ByteBpeTokenizer(BaseTokenizer):
    """Converts text to byte-level BPE ids, identical to GPT-2's and RoBERTa's; see `BytePairs`.

        tokenizer = ByteBpeTokenizer.from_directory("roberta-base")
        tokenizer.tokenize(["Hello world"])             # [[31414, 232]]     Hello Ġworld

    Attributes:
        add_prefix_space: whether a space is prepended to a text that does not begin with one.
        nfc: whether a text is first normalized to Unicode's NFC, as in ModernBERT.
    """

    KIND: ClassVar = "byte_bpe"
    FILES: ClassVar = (VOCAB_FILE,)

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        template: InputTemplate,
        add_prefix_space: bool = False,
        vocab_file: str | os.PathLike | None = None,
        added_tokens: Sequence[AddedToken] = (),
        nfc: bool = False,
        tokenizer_class: str = "RobertaTokenizer",
    ):
        """Builds the tokenizer from a vocabulary and its merges.

        Args:
            vocab: token -> id, from 0 without gaps, in the characters of `byte_symbols`.
            merges: pairs of tokens, in the order they were learned.
            template: the family's input template.
            add_prefix_space: see above.
            vocab_file: path of the file they came from.
            added_tokens: tokens matched in the text before it is split; after the vocabulary, or in it with the same
                ids.
            nfc: see above.
            tokenizer_class: Transformers' class that reads the files.

        Raises:
            ValueError: an id, a byte, a special token or the result of a merge is missing, or an added token does not
                match the vocabulary.
        """
        source = vocab_file or "The vocabulary"
        super().__init__(
            *(TokenList(_by_id(vocab, source), dict(vocab)), vocab_file, template),
            special=(template.pad, template.unknown, template.mask),
        )
        self.do_lower_case, self.add_prefix_space = False, bool(add_prefix_space)
        self.nfc, self._tokenizer_class = nfc, tokenizer_class
        self._normalized = compose_characters if nfc else None
        self._merges = tuple(tuple(merge) for merge in merges)
        try:
            self._pairs = BytePairs(vocab, merges)
        except ValueError as error:
            raise ValueError(f"{source}: {error}") from error
        self._take_added_tokens(added_tokens)

    @classmethod
    def _check_settings(cls, directory, config, do_lower_case, family):
        config_path = os.path.join(directory, CONFIG_FILE)
        check_tokenizer_config(config_path, config, cls.KIND)
        if case_setting(config_path, config, do_lower_case, False):
            raise ValueError(
                "`do_lower_case` must be false for a model with byte-level BPE, because its vocabulary is cased. "
                "Received: true; omit `do_lower_case`."
            )
        if not isinstance(config.get("add_prefix_space", False), bool):
            raise ValueError(
                f"{config_path}: add_prefix_space must be true or false. Received: "
                f"{brief(config['add_prefix_space'])}; {_REMEDY}."
            )
        asked = {"add_prefix_space": config["add_prefix_space"]} if "add_prefix_space" in config else {}
        return {**family.tokenizing_by(cls.KIND), **asked}

    @classmethod
    def _from_vocabulary(cls, vocab_file, directory, do_lower_case, template, settings):
        vocab, merges = _read_pair(vocab_file)
        return cls(vocab, merges, template, vocab_file=vocab_file, **settings)

    @classmethod
    def _from_tokenizer_json(cls, whole, directory, do_lower_case, template, settings):
        tokens = whole.vocabulary(template)
        vocab = {token: i for i, token in enumerate(tokens) if token}
        if len(vocab) < len(tokens):
            raise ValueError(
                f"{whole.path}: ids must be 0, 1, 2 and so on without gaps. No token has the id "
                f"{tokens.index('')}; is the vocabulary incomplete?"
            )
        merges = whole.model["merges"]
        merges = [_checked_merge(merge, vocab, f"{whole.path}, merge {n}") for n, merge in enumerate(merges, 1)]
        path = cls.file_in(os.path.dirname(whole.path))
        if os.path.isfile(path):
            other = check_vocab(read_object(path, "a vocabulary in JSON", _REMEDY, _LARGEST), path)
            tokens = sorted(other, key=other.get)
            file_precedence.warn_of_vocabulary(whole.path, whole.tokens[: whole.own], path, tokens)
        said = {"add_prefix_space": file_precedence.prefix_space(whole, directory), "nfc": whole.said["nfc"]}
        return cls(vocab, merges, template, vocab_file=whole.path, **{**settings, **said})

    @property
    def written_tokens(self) -> list[str]:
        byte_of = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
        special = self._special() | {token.content for token in self.added_tokens}

        def written(token):
            if token in special or not byte_of.keys() >= set(token):
                return token
            return bytes(byte_of[symbol] for symbol in token).decode("utf-8", "replace")

        return [written(token) for token in self.vocab]

    @property
    def settings(self) -> dict[str, Any]:
        more = {"nfc": True} if self.nfc else {}
        more |= {"tokenizer_class": self._tokenizer_class} if self._tokenizer_class != "RobertaTokenizer" else {}
        return self._with_added({"add_prefix_space": self.add_prefix_space, **more})

    @classmethod
    def from_saved(cls, directory, template, settings):
        return cls._from_vocabulary(cls.file_in(directory), directory, None, template, cls._arguments(settings))

    def _write_vocabulary(self, directory):
        ids = {token: i for i, token in enumerate(self._vocabulary.tokens)}
        write_text(os.path.join(directory, VOCAB_FILE), json.dumps(ids, ensure_ascii=False) + "\n")
        lines = [f"{_HEAD}: 0.2", *(" ".join(merge) for merge in self._merges)]
        write_text(os.path.join(directory, MERGES_FILE), "".join(f"{line}\n" for line in lines))

    def _tokenizer_json(self):
        return tokenizer_json_writer.byte_bpe_json(self, self._merges)

    def _tokenizer_config(self):
        settings = {"add_prefix_space": self.add_prefix_space, **self.special_tokens}
        return self._tokenizer_class, settings | added_tokens_config(self.added_tokens)

    def _ids_and_offsets(self, texts):
        if not self.nfc:
            return self._split(texts)
        made = compose_characters(texts)
        ids, *spans = self._split(tf.strings.unicode_encode(made.chars, "UTF-8"))
        first = tf.gather(made.chars.row_starts(), ids.value_rowids())
        spans = made.origins(*(tf.cast(each.flat_values, tf.int64) + first for each in spans))
        return ids, *map(ids.with_flat_values, spans)

    def _split(self, texts):
        if not self.add_prefix_space:
            return self._pairs(texts)
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
        spaced = tf.strings.regex_full_match(texts, _NO_SPACE)
        ids, starts, ends = self._pairs(tf.strings.join([tf.where(spaced, " ", ""), texts]))
        moved = tf.gather(tf.cast(spaced, tf.int32), ids.value_rowids())
        return ids, *(ids.with_flat_values(tf.maximum(each.flat_values - moved, 0)) for each in (starts, ends))


def _by_id(vocab, source):
    tokens = sorted(vocab, key=vocab.get)
    wrong = next((i for i, token in enumerate(tokens) if vocab[token] != i), None)
    if wrong is not None:
        raise ValueError(
            f"{source}: ids must be 0, 1, 2 and so on without gaps. Received {brief(vocab[tokens[wrong]])} "
            f"for {brief(tokens[wrong])} instead of {wrong}; is the vocabulary incomplete?"
        )
    return tokens


def _read_pair(vocab_file):
    """Returns the vocabulary and merges of vocab.json and of the merges.txt next to it."""
    if not os.path.isfile(vocab_file):
        raise ValueError(
            f"Vocabulary file not found: {vocab_file}. A byte-level BPE vocabulary is {VOCAB_FILE} with {MERGES_FILE} "
            f"next to it, or {WHOLE_FILE}; correct `vocab_file`."
        )
    vocab = check_vocab(read_object(vocab_file, "a vocabulary in JSON", _REMEDY, _LARGEST), vocab_file)
    path = os.path.join(os.path.dirname(vocab_file), MERGES_FILE)
    if not os.path.isfile(path):
        raise ValueError(
            f"Merges file not found: {path}. {MERGES_FILE} is required next to {vocab_file}; copy it from the original "
            "model."
        )
    if os.path.getsize(path) > _LARGEST:
        raise ValueError(
            f"A merges file must have at most {_LARGEST:,} bytes. Received {path} of {os.path.getsize(path):,}; "
            f"{_REMEDY}."
        )
    merges = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith(_HEAD)):
            continue
        merges.append(_checked_merge(line, vocab, f"{path}, line {number}"))
    return vocab, merges


def _checked_merge(merge, vocab, where):
    pair = tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) if isinstance(merge, list) else ()
    if len(pair) != 2 or not all(isinstance(token, str) and token for token in pair):
        raise ValueError(f"{where}: a merge must be two tokens separated by a space. Received: {brief(merge)}.")
    lacking = [token for token in (*pair, "".join(pair)) if token not in vocab]
    if lacking:
        raise ValueError(
            f"{where}: the two tokens of a merge and their concatenation must be in the vocabulary. Received "
            f"{brief(merge)}, but {brief(lacking[0])} is missing; use both files from one model."
        )
    return pair
