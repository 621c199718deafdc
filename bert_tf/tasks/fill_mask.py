"""Fill-mask: masked-token prediction with a pretrained model. `pretraining/objectives/` trains the head."""

import keras
import tensorflow as tf

from bert_tf.data.features import ENCODER_INPUTS, keras_inputs
from bert_tf.models.config import EncoderConfig
from bert_tf.models.pretrainer import Pretrainer
from bert_tf.tasks.sequences import encode_served_texts
from bert_tf.tasks.servable_task import ServableTask


class FillMaskTask(ServableTask):
    """Fill-mask task: encoder and masked-LM head, for prediction and export; see `tasks/servable_task.py`.

    Args:
        config: configuration of the encoder.
        vocab: the tokens, in the order of their ids.
        top_k: number of tokens to predict; all if the vocabulary has fewer.
    """

    name = "fill_mask"
    features = (*ENCODER_INPUTS, "masked_lm_positions")
    head = (r"cls[/.]predictions[/.].*",)
    uses_pooler = False  # a masked-LM checkpoint of Hugging Face has none
    example_method = "classify"
    reads_whole_texts = False

    def __init__(self, config: EncoderConfig, vocab: list[str], top_k: int = 5):
        self.config = config
        self.vocab = list(vocab)
        self.top_k = min(top_k, len(self.vocab))

    def build_model(self) -> keras.Model:
        """Builds a model from `features` to "mlm_logits", float32 [B, M, V], and the positions, int32 [B, M]."""
        inputs = keras_inputs(self.features)
        logits = Pretrainer(self.config, next_sentence=False)(inputs)["mlm_logits"]
        outputs = {"mlm_logits": logits, "masked_lm_positions": inputs["masked_lm_positions"]}
        return keras.Model(inputs, outputs, name="fill_mask")

    def for_serving(self, model):
        """Returns the model for the first of M positions, the only one used by `postprocess`.

        Each position costs one logit per vocabulary token: 65,536 positions, which sixty bytes can request, cost 8 GB.
        """
        inputs = keras_inputs(self.features)
        first = inputs["masked_lm_positions"][:, :1]
        return keras.Model(inputs, model({**inputs, "masked_lm_positions": first}), name="first_position")

    def fill(self, outputs) -> dict[str, tf.Tensor]:
        """Returns the most probable tokens for every position.

        Args:
            outputs: the model's outputs.

        Returns:
            "token", string [B, M, k], and "probability", float32 [B, M, k], the most probable first; "" and 0 if the
            position is 0, that of [CLS], which means no mask. Probabilities are over the whole embedding table; rows
            without a token in the vocabulary are never predicted.
        """
        probability, ids = self._best(outputs)
        there = outputs["masked_lm_positions"][..., tf.newaxis] > 0
        token = tf.gather(tf.constant([*self.vocab, ""]), tf.where(there, ids, len(self.vocab)))
        return {"token": token, "probability": tf.where(there, probability, 0.0)}

    def _best(self, outputs):
        shares = tf.nn.softmax(tf.cast(outputs["mlm_logits"], tf.float32))[..., : len(self.vocab)]
        return tf.math.top_k(shares, self.top_k)

    def card_limitations(self, max_seq_length):
        return [*super().card_limitations(max_seq_length), "If a text has several masks, only the first is predicted."]

    def preprocess(self, tokenizer, texts, max_seq_length):
        return encode_served_texts(tokenizer, texts, max_seq_length), None

    def postprocess(self, outputs, origin=None) -> dict[str, tf.Tensor]:
        """Returns the served predictions: "token" and "probability" [B, k] for each sequence's first position."""
        first = {name: value[:, :1] for name, value in outputs.items()}
        return {name: value[:, 0] for name, value in self.fill(first).items()}

    def postprocess_numbers(self, outputs):
        """Returns "token", int32 ids, and "probability", each [B, k], for each sequence's first position."""
        probability, ids = self._best({name: value[:, :1] for name, value in outputs.items()})
        return {"token": ids[:, 0], "probability": probability[:, 0]}

    def example_answer(self, outputs, origin=None) -> dict[str, tf.Tensor]:
        """Returns the same as "scores" and "classes", for requests of tf.Examples."""
        served = self.postprocess(outputs)
        return {"scores": served["probability"], "classes": served["token"]}
