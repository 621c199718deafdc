"""Exports a model as TF Hub's pair of SavedModels, preprocessor and encoder."""

import os

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints import heads, loading
from bert_tf.checkpoints.assign_weights import assign_weights
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.litert import quiet
from bert_tf.models.embeddings import ensure_length
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretraining_heads import MaskedLMHead, build_in_cls
from bert_tf.models.training_ops import seed_scope
from bert_tf.tokenization.base_tokenizer import BaseTokenizer
from bert_tf.tokenization.unigram import UnigramTokenizer
from bert_tf.utils.files import check_free, whole_directory

# === Preprocessor ===
# TF Hub's preprocessor: texts to an encoder's inputs, as a SavedModel (tensorflow.org/hub, "Common SavedModel APIs for
# Text Tasks"). Only this file uses TF Hub's names of inputs.


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

    A SavedModel holds one graph per kind of arguments: one text or two, with or without words. A
    sequence that is too long is truncated like tensorflow-text's RoundRobinTrimmer.
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


# === Encoder ===
# TF Hub's encoder: from inputs to hidden states, as a SavedModel that can be fine-tuned.


_POSITIONS = "masked_lm_positions"


class _Trainable(tf.Module):
    """A function of a dict of int32 tensors, and of `training`; its variables are lists, which SavedModels keep."""

    variables = trainable_variables = ()  # in place of tf.Module's properties, which would not be saved

    def __init__(self, name, variables, function, inputs):
        super().__init__(name=name)
        # TensorFlow's variables instead of Keras's, whose objects would write each weight a second time (keras#23553).
        self.variables = [variable.value for variable in variables]
        self.trainable_variables = [variable.value for variable in variables if variable.trainable]
        self.regularization_losses = []
        self._function = function
        specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in inputs}
        for training in (False, True):
            self.__call__.get_concrete_function(specs, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        # Dropout draws from the graph's own generator: Keras's has a variable, which is not part of the model.
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32) if training else tf.zeros([2], tf.int32)
        with seed_scope(seed):
            return self._function(inputs, training)


class HubEncoder(_Trainable):
    """TF Hub encoder with its variables, to be saved with `tf.saved_model.save`.

        encoder({"input_word_ids", "input_mask", "input_type_ids"}, training=False)

    takes int32 [n, S] each and returns `pooled_output` [n, H], also as `default`; `sequence_output` [n, S, H];
    `encoder_outputs`, a list of each layer's [n, S, H]; float32. With a `head`,
    `encoder.mlm({..., "masked_lm_positions": int32 [n, M]})` returns the same without `default`, and `mlm_logits`
    float32 [n, M, V].

    Attributes:
        variables, trainable_variables: lists; `encoder.mlm` has its own, which include the encoder's.
        regularization_losses: none.
        vocab_file: the vocabulary, as an asset; `sp_model_file` for SentencePiece.
        do_lower_case: a variable, bool: whether text is lowercased.

    Args:
        encoder: built, with weights.
        tokenizer: the encoder's tokenizer.
        head: the masked-LM head, or None.
    """

    def __init__(self, encoder: Encoder, tokenizer: BaseTokenizer, head: MaskedLMHead | None = None):
        def encode(inputs, training):
            outputs = _encode(encoder, inputs, training)
            return outputs | {"default": outputs["pooled_output"]}

        super().__init__("encoder", encoder.variables, encode, _INPUTS)
        self.do_lower_case = tf.Variable(tokenizer.do_lower_case, trainable=False, name="do_lower_case")
        add_vocabulary(self, tokenizer)
        if head:
            weights = [*encoder.variables, *head.variables]
            self.mlm = _Trainable("mlm", weights, lambda x, t: _fill(encoder, head, x, t), (*_INPUTS, _POSITIONS))


_INPUTS = tuple(INPUTS.values())


def _encode(encoder, inputs, training):
    return _shown(encoder(_features(encoder, inputs), training=training))


def _shown(outputs):
    return {name: outputs[name] for name in ("pooled_output", "sequence_output", "encoder_outputs")}


def _features(encoder, inputs):
    features = {ours: inputs[theirs] for ours, theirs in INPUTS.items()}
    return features | {"input_ids": ensure_length(features["input_ids"], encoder.config)}


def _fill(encoder, head, inputs, training):
    features = _features(encoder, inputs)
    outputs = encoder(features, training=training)
    x, table = head.input_of(encoder, outputs, features, training), encoder.embeddings.word_embeddings
    logits = head(x, tf.convert_to_tensor(table), inputs[_POSITIONS], training=training)
    return _shown(outputs) | {"mlm_logits": logits}


# === Export ===
# From a checkpoint of any kind to TF Hub's pair of SavedModels.


PREPROCESSOR, ENCODER = "preprocessor", "encoder"  # the directories of an export
_USUAL_LENGTH = 128
_HEAD = "cls/predictions/"


def export_hub(
    path: str | os.PathLike, export_dir: str | os.PathLike, default_seq_length: int | None = None
) -> tuple[str, str]:
    """Exports a model for TF Hub's text API: writes `preprocessor` and `encoder`, and returns their paths.

    Args:
        path: a checkpoint, as in `bert_tf.load`; of a fine-tuned model, the encoder is exported.
        export_dir: output directory; must not exist or must be empty.
        default_seq_length: sequence length of the preprocessor; None: 128, or fewer if the model
            has fewer positions.

    Raises:
        ValueError: there is no such checkpoint, sequences would be longer than the model's positions, `export_dir`
            is not empty, or it cannot be written.
    """
    check_free(export_dir, parameter="export_dir")
    bert = loading.load(path)
    length = _checked_length(default_seq_length, bert.config.max_length, bert.tokenizer.template)
    models = {
        PREPROCESSOR: Preprocessor(bert.tokenizer, length),
        ENCODER: HubEncoder(bert.encoder, bert.tokenizer, _masked_lm_head(path, bert)),
    }
    try:
        with whole_directory(export_dir) as folder, quiet():
            for name, model in models.items():
                tf.saved_model.save(model, os.path.join(folder, name), signatures={})
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"Could not write the export to {export_dir}: {reason}. Nothing was kept."
        ) from error
    return tuple(os.path.join(export_dir, name) for name in models)


def _checked_length(length, most, template):
    length = min(_USUAL_LENGTH, most) if length is None else length
    if not template.special(2) <= length <= most:
        raise ValueError(
            f"`default_seq_length` must be from {template.special(2)} (the special tokens of a pair) to {most} (the "
            f"model's positions); got {length}."
        )
    return length


def _masked_lm_head(path, bert):
    """Returns the masked-LM head with the checkpoint's weights; None if it has none."""
    if not any(name.startswith(_HEAD) for name in bert.others):
        return None
    c = bert.config
    if c.is_decoder:
        logging.warning("%s is a causal model without a masked-LM head: exporting without `mlm`.", path)
        return None
    head = build_in_cls(MaskedLMHead.of(c), c.hidden_size)
    assign_weights(open_checkpoint(path), head.variables, excuse=("bert/.*", *heads.others((f"{_HEAD}.*",))))
    return head
