"""TF Hub's encoder: from inputs to hidden states, as a SavedModel that can be fine-tuned."""

import tensorflow as tf

from bert_tf.export.hub.preprocessor import INPUTS, add_vocabulary
from bert_tf.models.embeddings import ensure_length
from bert_tf.models.encoder import Encoder
from bert_tf.models.pretraining_heads import MaskedLMHead
from bert_tf.models.training_ops import seed_scope
from bert_tf.tokenization.base_tokenizer import BaseTokenizer

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
