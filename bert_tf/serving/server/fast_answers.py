"""Answers by LiteRT's model next to a SavedModel, for requests and batches that it computes faster."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_tf.lite.fast_path import FastPath
from bert_tf.serving.server.fair_semaphore import FairSemaphore
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE
from bert_tf.serving.server.request_context import RequestContext

if TYPE_CHECKING:
    from bert_tf.serving.server.saved_model import SavedModel


class FastAnswers:
    """Computes a request or a batch, with the arguments of `versions.Compute`.

    Args:
        compute: of the SavedModel.
        model: the SavedModel.
        fast_path: LiteRT's model next to it, which decides by number and length of the texts what it takes.

    Attributes:
        fast_path: the argument.
        turns: of LiteRT's interpreters. Requests wait for one, because the SavedModel would take more of the cores.
    """

    def __init__(self, compute: Callable[..., dict[str, np.ndarray]], model: "SavedModel", fast_path: FastPath):
        self._compute, self._model, self.fast_path = compute, model, fast_path
        self.turns = FairSemaphore(fast_path.size)

    def __call__(self, signature, inputs, aliases: Sequence[str], call: RequestContext, plan=None):
        if signature is self._model.signatures.get(DEFAULT_SIGNATURE) and self.fast_path.takes(inputs):
            with self.turns.turn(call):
                call.check()
                answer = self.fast_path.answer(inputs)
            if answer is not None:
                outputs, counts = answer
                self._model.token_counts.add(counts)
                return {alias: outputs[alias] for alias in aliases}
        return self._compute(signature, inputs, aliases, call, plan)
