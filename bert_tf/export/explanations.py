"""Signatures by which a served model explains itself: what `bert_tf.inspect` tells, in the graph, over the wire.

    attention      texts [n], layers int32 [n, k]     ->  attention float32 [n, k, A, S, S]
    attributions   texts [n], target string [n]       ->  attribution float32 [n, S], target, score, baseline_score,
                                                          gap, steps [n]
    both                                              ->  piece string, start, end, of_text int32 [n, S]

All weights of a model with 12 layers of 12 heads are 9 MB for a text of 128 pieces; so a request names the layers that
it wants, and gets them as they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.export.text_cut import cut
from bert_tf.interpret.choices import check_task, head_in
from bert_tf.interpret.exported import attention_in_graph, attributions_in_graph, encoder_in
from bert_tf.utils.names import EXPLANATIONS

ATTENTION, ATTRIBUTIONS = EXPLANATIONS


def check(kinds: Sequence[str], task: Any, dtype: str):
    """Raises ValueError where an export cannot explain itself so, as far as that is seen before there is a model.

    Args:
        kinds: some of `names.EXPLANATIONS`.
        task: a `FineTuned`.
        dtype: of the export's weights and computation.
    """
    if kinds and task.list_inputs:
        raise ValueError(
            "`export_explanations` must come with a model that reads an example in one row. Received one for "
            f"{task.name}, whose examples have several; leave it out."
        )
    if ATTRIBUTIONS not in kinds:
        return
    check_task(task)
    if dtype != "float32":
        raise ValueError(
            "`export_explanations=attributions` must come with `export_dtype=float32`: a sum of gradients in "
            f"{dtype} explains no score. Received {dtype}; change one of the two."
        )


def explaining(
    kinds: Sequence[str], task: Any, model: Any, tokenizer: Any, text_inputs: Sequence[str], max_seq_length: int
) -> Callable[[], dict[str, tuple[Callable, list[tf.TensorSpec]]]]:
    """Returns a function that gives {signature: (function, its inputs' specs)}.

    Args:
        kinds: some of `names.EXPLANATIONS`.
        task, model, tokenizer, text_inputs, max_seq_length: as of `ServedModel`.

    Raises:
        ValueError: the model cannot be explained so.
    """
    if not kinds:
        return dict
    encoder = encoder_in(model)
    check(kinds, task, encoder.compute_dtype)
    texts = [tf.TensorSpec([None], tf.string, name=name) for name in text_inputs]
    offered = {}
    if ATTENTION in kinds:

        def attention(*inputs):
            *texts, layers = inputs
            texts = [cut(each, max_seq_length) for each in texts]
            return attention_in_graph(encoder, tokenizer, texts, layers, max_seq_length)

        offered[ATTENTION] = attention, [*texts, tf.TensorSpec([None, None], tf.int32, name="layers")]
    if ATTRIBUTIONS in kinds:
        head = head_in(model, task)

        def attributions(*inputs):
            *texts, target = inputs
            if not task.reads_whole_texts:
                texts = [cut(each, max_seq_length) for each in texts]
            return attributions_in_graph(encoder, head, tokenizer, task.read, texts, target, max_seq_length)

        offered[ATTRIBUTIONS] = attributions, [*texts, tf.TensorSpec([None], tf.string, name="target")]
    return lambda: offered
