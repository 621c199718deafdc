"""Callbacks of users: plain functions, and Keras callbacks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from bert_tf.training.state import TrainingState
from bert_tf.training.trainer import Trainer


def check_callbacks(callbacks: Sequence[Callable | keras.callbacks.Callback]):
    """Raises TypeError if one is neither a function nor a Keras callback, or they are not in a list."""
    if not isinstance(callbacks, Sequence):
        raise TypeError(f"`callbacks` must be a list of callbacks; got {callbacks!r:.80}. Put it into a list.")
    for callback in callbacks:
        if not callable(callback) and not isinstance(callback, keras.callbacks.Callback):
            raise TypeError(f"`callbacks` must be functions of (step, logs) or Keras callbacks; got {callback!r}.")


def adapt_callbacks(
    callbacks: Sequence[Callable | keras.callbacks.Callback], trainer: Trainer, num_epochs: float
) -> list[Callable]:
    """Returns callbacks as `Trainer.fit` takes them.

    Args:
        callbacks: functions of (step, {name: number} of the step, such as its loss), and Keras callbacks.
        trainer: that will call them.
        num_epochs: number of epochs of its run.
    """
    of_keras = [each for each in callbacks if isinstance(each, keras.callbacks.Callback)]
    functions = [_FunctionCallback(each) for each in callbacks if not isinstance(each, keras.callbacks.Callback)]
    return [*functions, *([KerasCallbacks(of_keras, trainer, num_epochs)] if of_keras else ())]


def _numbers(results: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in results.items()}


class _FunctionCallback:
    def __init__(self, function):
        self._function = function

    def __call__(self, step, results, state):
        self._function(step, _numbers(results))


class KerasCallbacks:
    """Calls Keras callbacks at the begin and end of training, epochs and batches; `stop_training` ends the run.

    The logs of a batch are its loss and the other results of its step. Those of an epoch are their means and, if a
    checkpoint at its end was evaluated, its metrics as `val_accuracy` and so on. A resumed run starts within an epoch.

    Args:
        callbacks: the Keras callbacks.
        trainer: trainer of the run.
        num_epochs: number of epochs of the run; the last may be a part.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback], trainer: Trainer, num_epochs: float):
        self._callbacks, self._trainer = list(callbacks), trainer
        self._last = trainer.run.num_train_steps
        self._per_epoch = max(1, round(self._last / num_epochs))
        self._list: keras.callbacks.CallbackList | None = None
        self._epoch, self._batches = 0, 0
        self._sums: dict[str, float] = {}

    def resume(self, step: int, state: TrainingState):
        """Begins training, or continues after a rollback."""
        if self._list is None:
            params = {"epochs": -(-self._last // self._per_epoch), "steps": self._per_epoch, "verbose": 0}
            self._list = keras.callbacks.CallbackList(self._callbacks, model=state.model, **params)
            state.model.stop_training = False
            self._list.on_train_begin()
        self._begin_epoch(step)
        self._begin_batch(step)

    def __call__(self, step: int, results: Mapping[str, Any], state: TrainingState):
        logs = _numbers(results)
        self._list.on_train_batch_end((step - 1) % self._per_epoch, logs)
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in logs.items()}
        self._batches += 1
        if step % self._per_epoch == 0 or step == self._last:
            means = {name: value / self._batches for name, value in self._sums.items()}
            scores = {f"val_{name}": value for name, value in self._trainer.scores_at(step).items()}
            self._list.on_epoch_end(self._epoch, means | scores)
        if state.model.stop_training and state.ended_at is None:
            state.ended_at = step
        if step == self._last or state.ended_at is not None:
            self._list.on_train_end()
            return
        if step % self._per_epoch == 0:
            self._begin_epoch(step)
        self._begin_batch(step)

    def _begin_epoch(self, step):
        self._epoch, self._sums, self._batches = step // self._per_epoch, {}, 0
        if self._list is not None:
            self._list.on_epoch_begin(self._epoch)

    def _begin_batch(self, step):
        self._list.on_train_batch_begin(step % self._per_epoch)
