"""A fine-tuned BERT as a scikit-learn regressor: `train classifier --problem_type=regression` on texts in memory."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from sklearn.base import RegressorMixin

from bert_tf.sklearn.estimator import FineTunedEstimator, labeled_texts, texts_data
from bert_tf.sklearn.targets import as_values
from bert_tf.tasks.classification.task import ClassificationTask


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class BertRegressor(RegressorMixin, FineTunedEstimator):
    """Text regressor: fine-tunes an encoder to predict a number, as `train classifier --problem_type=regression` does.

        BertRegressor("demo/weights/minilm").fit(pairs, similarities).predict([("A warm film.", "A cold film.")])

    X is texts, or pairs of texts; y is a number per text. The loss is the squared error of the numbers as they are: to
    predict large ones, wrap it in `sklearn.compose.TransformedTargetRegressor` with a `StandardScaler`.

    All arguments are those of `FineTunedEstimator`.
    """

    _kind = ClassificationTask

    def predict(self, X: Sequence) -> np.ndarray:
        """Returns the number for each of n texts or pairs, float64 [n].

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not texts or pairs, or not what it was fitted on.
        """
        return self._predictions(X)

    def _read_targets(self, y, inputs):
        return as_values(y, inputs)

    def _examples(self, inputs, targets=None):
        return labeled_texts(inputs, None if targets is None else targets.tolist())

    def _task_data(self, examples, weights):
        return texts_data(examples, "regression", None, weights)
