"""The internals of a model as arrays: attention, queries and keys, hidden states, attributions, head ablation.

    bert = bert_tf.load("demo/weights/minilm")
    [seen] = bert_tf.inspect.attention(bert, ["The cat sat on the mat."])
    seen.tokens, seen.weights[11, 3]                # [S] tokens; float32 [S, S]: layer 11, head 3, from to

Layers and heads count from 0, as in `pruned_heads` of a configuration. See docs/guides/interpretability.md.
"""

from bert_tf.interpret.ablation import ablate_heads
from bert_tf.interpret.attention import Attention, Neurons, attention, neurons
from bert_tf.interpret.attribution import Attributions, attributions
from bert_tf.interpret.encoded_text import EncodedText
from bert_tf.interpret.hidden_states import Inputs, Layers, inputs, layers
from bert_tf.interpret.lens import LogitLens, logit_lens
from bert_tf.interpret.words import Word
from bert_tf.utils.old_names import find_renamed

__all__ = [
    "Attention", "Attributions", "EncodedText", "Inputs", "Layers", "LogitLens", "Neurons", "Word",
    "ablate_heads", "attention", "attributions", "inputs", "layers", "logit_lens", "neurons",
]  # fmt: skip
_OLD_NAMES = {"heads_off": "ablate_heads", "masked_words": "logit_lens", "MaskedWords": "LogitLens"}


def __getattr__(name):
    return find_renamed(__name__, _OLD_NAMES, name)
