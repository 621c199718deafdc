"""TF Hub's preprocessor: texts to an encoder's inputs, as a SavedModel.

The API is that of tensorflow.org/hub, "Common SavedModel APIs for Text Tasks". Only this file has TF Hub's names of
inputs.
"""

import tensorflow as tf

from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer

INPUTS = {"input_ids": "input_word_ids", "input_mask": "input_mask", "segment_ids": "input_type_ids"}  # ours -> theirs
_ASSETS = {UnigramTokenizer.KIND: "sp_model_file"}  # kind of tokenizer -> TF Hub's name of its file
_TEXTS = (tf.TensorSpec([None], tf.string),)


class Preprocessor(tf.Module):
    """TF Hub preprocessor for a tokenizer, to be saved with `tf.saved_model.save`.

        preprocessor(texts)                                  strings [n] -> the encoder's inputs, int32 [n, S]
        preprocessor.tokenize(texts)                         -> ids
        preprocessor.tokenize_with_offsets(texts)            -> [ids, starts, ends]
        preprocessor.tokenize.get_special_tokens_dict()      -> ids of special tokens, and the vocabulary size
        preprocessor.bert_pack_inputs([a], seq_length=64)    ids -> the encoder's inputs; also [a, b]

    The inputs are a dict of `input_word_ids`, `input_mask` and `input_type_ids`. ids are RaggedTensors of int32
    [n, (words), (tokens)], or [n, (tokens)] if the tokenizer has no words. starts and ends, int64 of the same
    shape, count bytes of the text, as in tensorflow-text.

    Args:
        tokenizer: a `BaseTokenizer`.
        default_seq_length: S, sequence length, unless `bert_pack_inputs` gets another one.
    """

    def __init__(self, tokenizer: BaseTokenizer, default_seq_length: int = 128):
        super().__init__(name="preprocessor")
        self.tokenizer = tokenizer  # keeps its tables in the saved object, even after loading and saving again
        special = tf.function(lambda: _special_tokens(tokenizer), input_signature=(), autograph=False)
        self.tokenize = _Tokenize(lambda texts: tokenizer.tokenize_by_words(texts)[0], special)
        self.tokenize_with_offsets = _Tokenize(lambda texts: _with_byte_offsets(tokenizer, texts), special)
        self.bert_pack_inputs = _BertPackInputs(tokenizer, default_seq_length)
        self._default_seq_length = default_seq_length
        add_vocabulary(self, tokenizer)

    @tf.function(input_signature=_TEXTS, autograph=False)
    def __call__(self, texts):
        return _pack(self.tokenizer, [self.tokenizer.tokenize(texts)], self._default_seq_length)


def add_vocabulary(module: tf.Module, tokenizer: BaseTokenizer):
    """Adds the tokenizer's file, if any, to a module as an asset under TF Hub's name for its kind."""
    if tokenizer.vocab_file:
        setattr(module, _ASSETS.get(tokenizer.KIND, "vocab_file"), tf.saved_model.Asset(tokenizer.asset_file))


class _Tokenize(tf.Module):
    """A tokenize function that also returns the special tokens."""

    def __init__(self, function, special):
        super().__init__()
        self._function = function
        self.get_special_tokens_dict = special

    @tf.function(input_signature=_TEXTS, autograph=False)
    def __call__(self, texts):
        return self._function(texts)


class _BertPackInputs(tf.Module):
    """Packs the ids of one or two texts per example into the encoder's inputs.

    A SavedModel contains one graph per kind of arguments: one text or two, with or without words. A sequence that is
    too long is truncated like tensorflow-text's RoundRobinTrimmer.
    """

    def __init__(self, tokenizer, default_seq_length):
        super().__init__()

        # The default is known only here, and the function's signature is saved.
        @tf.function(autograph=False)
        def call(inputs, seq_length=default_seq_length):
            return _pack(tokenizer, inputs, seq_length)

        self.__call__ = call
        with_or_without_words = [tf.RaggedTensorSpec([None] * rank, tf.int32) for rank in (2, 3)]
        arguments = [[a] for a in with_or_without_words]
        if tokenizer.template.takes_pairs:
            arguments += [[a, b] for a in with_or_without_words for b in with_or_without_words]
        for inputs in arguments:
            call.get_concrete_function(inputs, seq_length=tf.TensorSpec([], tf.int32))

    def __call__(self, *inputs, **arguments):  # Python looks for it here, before saving
        return vars(self)["__call__"](*inputs, **arguments)


def _pack(tokenizer, segments, seq_length):
    flat = [ids.merge_dims(1, 2) if ids.shape.rank == 3 else ids for ids in segments]
    inputs = tokenizer.pad(tokenizer.pack(*flat, max_seq_length=seq_length), seq_length)
    return {theirs: inputs[ours] for ours, theirs in INPUTS.items()}


def _special_tokens(tokenizer):
    first, last = tokenizer.template.before[0], tokenizer.template.after[-1]
    values = {
        "vocab_size": tokenizer.vocab_size,
        "padding_id": tokenizer.pad_id,
        "start_of_sequence_id": tokenizer.vocab.index(first),
        "end_of_segment_id": tokenizer.vocab.index(last),
        "mask_id": tokenizer.mask_id,
    }
    return {name: tf.constant(value, tf.int32) for name, value in values.items() if value is not None}


def _with_byte_offsets(tokenizer, texts):
    """Returns ids, starts and ends, the last two in bytes of the original texts."""
    ids, starts, ends = tokenizer.tokenize_by_words(texts)
    with tf.device("CPU:0"):
        chars, begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="ignore")
        lengths = 1 + sum(tf.cast(chars.flat_values >= longer, tf.int64) for longer in (0x80, 0x800, 0x10000))
        char_ends = begins.flat_values + lengths
        row = ids.value_rowids() if ids.shape.rank == 2 else tf.gather(ids.value_rowids(), ids.values.value_rowids())
        first = tf.gather(begins.row_starts(), row)

        def bytes_at(positions, where):
            return tf.gather(tf.concat([where, [0]], 0), first + tf.cast(positions, tf.int64))

        begin, until = starts.flat_values, ends.flat_values
        end = bytes_at(tf.maximum(until - 1, 0), char_ends)
        start = tf.where(begin < until, bytes_at(begin, begins.flat_values), end)  # a token without extent
    return [ids, ids.with_flat_values(start), ids.with_flat_values(end)]
