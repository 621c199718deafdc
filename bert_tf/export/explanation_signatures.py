"""Signatures that explain predictions: the results of `bert_tf.inspect`, computed in the served graph.

    attention      texts [n], layers int32 [n, k]     ->  attention float32 [n, k, A, S, S]
    attributions   texts [n], target string [n]       ->  attribution float32 [n, S], target, score, baseline_score,
                                                          gap, steps [n]
    both                                              ->  token string, start, end, of_text int32 [n, S]

All weights of a model with 12 layers of 12 heads are 9 MB for a text of 128 tokens; so a request names the layers
that it needs, and receives them unreduced.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.export.text_cut import cut
from bert_tf.interpret.exported import attention_in_graph, attributions_in_graph, encoder_in
from bert_tf.interpret.exported_targets import check_task, head_in
from bert_tf.utils.names import EXPLANATIONS

ATTENTION, ATTRIBUTIONS = EXPLANATIONS


def check_explanations(kinds: Sequence[str], task: Any, dtype: str):
    """Raises ValueError if it is clear without a model that an export cannot have these explanations.

    Args:
        kinds: some of `names.EXPLANATIONS`.
        task: a `FineTuned`.
        dtype: data type of the export's weights and computation.
    """
    if kinds and task.list_inputs:
        raise ValueError(
            "`export_explanations` requires a model that reads an example as one sequence; the examples of "
            f"{task.name} have several. Remove the option."
        )
    if ATTRIBUTIONS not in kinds:
        return
    check_task(task)
    if dtype != "float32":
        raise ValueError(
            "`export_explanations=attributions` requires `export_dtype=float32`: sums of gradients in "
            f"{dtype} are too inexact. Change one of the two."
        )


def explanation_signatures(
    kinds: Sequence[str], task: Any, model: Any, tokenizer: Any, text_inputs: Sequence[str], max_seq_length: int
) -> Callable[[], dict[str, tuple[Callable, list[tf.TensorSpec]]]]:
    """Returns a function that returns {signature: (function, specs of its inputs)}.

    Args:
        kinds: some of `names.EXPLANATIONS`.
        task, model, tokenizer, text_inputs, max_seq_length: as in `ServingModule`.

    Raises:
        ValueError: the model does not support the explanations.
    """
    if not kinds:
        return dict
    encoder = encoder_in(model)
    check_explanations(kinds, task, encoder.compute_dtype)
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
            return attributions_in_graph(encoder, head, tokenizer, task.preprocess, texts, target, max_seq_length)

        offered[ATTRIBUTIONS] = attributions, [*texts, tf.TensorSpec([None], tf.string, name="target")]
    return lambda: offered
