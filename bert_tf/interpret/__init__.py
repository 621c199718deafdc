"""The internals of a model as arrays: attention, queries and keys, hidden states, attributions, head ablation.

    bert = bert_tf.load("demo/weights/minilm")
    [seen] = bert_tf.inspect.attention(bert, ["The cat sat on the mat."])
    seen.tokens, seen.weights[11, 3]                # [S] tokens; float32 [S, S]: layer 11, head 3, from to

Layers and heads count from 0, as in `pruned_heads` of a configuration. See docs/guides/interpretability.md.
"""

from bert_tf.interpret.ablation import heads_off
from bert_tf.interpret.attention import Attention, Neurons, attention, neurons
from bert_tf.interpret.attribution import Attributions, attributions
from bert_tf.interpret.encoded_text import EncodedText
from bert_tf.interpret.hidden_states import Inputs, Layers, inputs, layers
from bert_tf.interpret.lens import MaskedWords, masked_words
from bert_tf.interpret.words import Word

__all__ = [
    "Attention", "Attributions", "Inputs", "Layers", "MaskedWords", "Neurons", "EncodedText", "Word",
    "attention", "attributions", "heads_off", "inputs", "layers", "masked_words", "neurons",
]  # fmt: skip
