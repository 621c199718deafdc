"""A fine-tuned BERT as a scikit-learn classifier: `train classifier` on texts in memory, with one label or several."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bert_tf.sklearn.estimator import FineTunedEstimator, labeled_texts, texts_data
from bert_tf.sklearn.targets import as_label_sets, as_labels, has_label_sets
from bert_tf.sklearn.texts import column_names
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.options import LabelOptions


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class BertClassifier(ClassifierMixin, FineTunedEstimator):
    """Text classifier: fine-tunes an encoder with the defaults and the arithmetic of `train classifier`.

        BertClassifier("demo/weights/minilm", num_train_epochs=2).fit(texts, labels).predict(["A warm, funny film."])

    X is texts, or pairs of texts. y is a label per text; or, for any number of labels per text, a matrix of 0 and 1,
    [n, L], or a list of labels (strings) per text.

    Args:
        class_weights: weights of the classes in the loss: None for 1 each, "balanced", or {class: weight}.
        label_smoothing: fraction of the target that is spread over all classes.

    All other arguments are those of `FineTunedEstimator`.

    Attributes:
        classes_: sorted as by `numpy.unique`; the columns of `predict_proba`. For a matrix of labels, the names of its
            columns in a DataFrame, otherwise 0 to L - 1.
        multilabel_: whether it was fitted on any number of labels per text.
    """

    class_weights: str | dict | None = None
    label_smoothing: float = LabelOptions.label_smoothing

    _kind = ClassificationTask

    def predict_proba(self, X: Sequence) -> np.ndarray:
        """Returns the probability of each class for n texts or pairs, float64 [n, L], in the order of `classes_`.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not texts or pairs, or not what it was fitted on.
        """
        return self._predictions(X)

    def predict(self, X: Sequence) -> np.ndarray:
        """Returns the most probable class of each of n texts, [n]; raises as `predict_proba`.

        With several labels per text: int64 [n, L], 1 for those with a probability above 0.5.
        """
        probabilities = self.predict_proba(X)
        return (probabilities > 0.5).astype(np.int64) if self.multilabel_ else self.classes_[probabilities.argmax(-1)]

    def score(self, X: Sequence, y: Sequence, sample_weight: Sequence[float] | None = None) -> float:
        """Returns the accuracy on n texts; with several labels, the fraction of texts whose labels are all correct.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: texts and labels do not match.
        """
        check_is_fitted(self)
        y = self._indicator(as_label_sets(y, X)) if self.multilabel_ else y
        return super().score(X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _read_targets(self, y, inputs):
        return as_label_sets(y, inputs) if has_label_sets(y) else as_labels(y, inputs)

    def _learn_targets(self, targets, y):
        self.multilabel_ = has_label_sets(y)
        if isinstance(targets, list):
            self.classes_ = np.array(sorted(frozenset().union(*targets)))
        elif self.multilabel_:
            names = column_names(y)
            self.classes_ = np.arange(targets.shape[1]) if names is None else np.array(names, object)
        else:
            self.classes_ = np.unique(targets)
        fewest = 1 if self.multilabel_ else 2
        if len(self.classes_) < fewest:
            received = f"one class, {self.classes_[0]!r}," if len(self.classes_) else "no label"
            raise ValueError(
                f"`y` must have at least {'one class' if self.multilabel_ else 'two classes'}; got {received} for all "
                f"{len(targets)} texts. Add texts of another class."
            )

    def _strata(self, targets):
        return None if self.multilabel_ else targets

    def _examples(self, inputs, targets=None):
        return labeled_texts(inputs, None if targets is None else self._names(targets))

    def _names(self, targets):
        """Returns the name of each text's label among the task's labels, or those of all its labels."""
        names = np.array(list(map(str, self.classes_)), object)
        if self.multilabel_:
            return [tuple(names[row == 1]) for row in self._indicator(targets)]
        self._check_kind(targets, isinstance(targets, np.ndarray) and targets.ndim == 1)
        index = self._index(targets.tolist())
        return [names[index[label]] for label in targets.tolist()]

    def _indicator(self, targets):
        """Returns the labels of n texts as int64 [n, L] in the order of `classes_`."""
        if isinstance(targets, list):
            index = self._index(name for each in targets for name in each)
            matrix = np.zeros([len(targets), len(index)], np.int64)
            for row, each in zip(matrix, targets, strict=True):
                row[[index[name] for name in each]] = 1
            return matrix
        self._check_kind(targets, targets.shape[1:] == self.classes_.shape)
        return targets

    def _index(self, labels):
        """Returns the index of each class, after checking that all labels are classes."""
        index = {name: i for i, name in enumerate(self.classes_.tolist())}
        if strange := [name for name in labels if name not in index]:
            raise ValueError(f"`y` must only have labels in {list(index)}; got {strange[0]!r}. Remove such texts.")
        return index

    def _check_kind(self, targets, is_same):
        if not is_same:
            kind = f"a matrix with {len(self.classes_)} columns" if self.multilabel_ else "one label per text"
            raise ValueError(f"`y` must be {kind}, as in `fit`; got an array of shape {np.shape(targets)}.")

    def _task_data(self, examples, weights):
        problem = "multi_label" if self.multilabel_ else "single_label"
        return texts_data(examples, problem, list(map(str, self.classes_)), weights)
