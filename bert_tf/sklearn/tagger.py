"""A fine-tuned BERT as a scikit-learn estimator of tags: `train tagger` on sentences in memory."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bert_tf.evaluation.entities import parse_entities, score_entities, tags_of
from bert_tf.sklearn.estimator import FineTunedEstimator
from bert_tf.sklearn.targets import as_tags
from bert_tf.sklearn.texts import as_sentences
from bert_tf.tasks.base import TaskData
from bert_tf.tasks.options import LabelOptions
from bert_tf.tasks.tagging.columns import TaggedExamples, unify_tags
from bert_tf.tasks.tagging.options import TaggingOptions
from bert_tf.tasks.tagging.task import TaggingTask, list_tags


class _Sentences(TaggedExamples):
    """Sentences in memory, whose positions in messages are those in `y`."""

    def where(self, index, word=0):
        return f"`y`, sentence {index}, word {word}"


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class BertTagger(FineTunedEstimator):
    """Word tagger, for example for named entities: fine-tunes an encoder with the defaults of `train tagger`.

        tagger = BertTagger("demo/weights/minilm").fit([["Joan", "Baez", "sings"]], [["B-PER", "I-PER", "O"]])
        tagger.predict(["Joan sings"])  # [["B-PER", "O"]]

    X is lists of words; or texts, whose words are separated by whitespace. y is a list of tags per sentence, one tag
    per word. Sentences over `max_seq_length` are read in windows.

    Args:
        class_weights: weights of the tags in the loss: None for 1 each, "balanced", or {tag: weight} with tags in IOB2.
        label_smoothing: fraction of the target that is spread over all tags.
        tag_scheme: the scheme of the tags, "iob1", "iob2" or "bioes"; "auto" detects it. Predictions use it, too.

    All other arguments are those of `FineTunedEstimator`.

    Attributes:
        classes_: the tags of the model, in IOB2.
        tag_scheme_: the scheme that was given or detected.
    """

    class_weights: str | dict | None = None
    label_smoothing: float = LabelOptions.label_smoothing
    tag_scheme: str = TaggingOptions.tag_scheme

    _kind = TaggingTask

    def predict(self, X: Sequence) -> list[list[str]]:
        """Returns the tags of the words of n sentences.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: the input is not sentences.
        """
        tags, _ = self._predictions(X)
        return [tags_of(parse_entities(each), len(each), self.tag_scheme_) for each in tags]

    def score(self, X: Sequence, y: Sequence) -> float:
        """Returns the F1 score of the entities in n sentences, over all types, as conlleval computes it.

        Raises:
            NotFittedError: `fit` was not called.
            ValueError: sentences and tags do not match.
        """
        check_is_fitted(self)
        return score_entities(as_tags(y, as_sentences(X)), self.predict(X))["f1"]

    def _read_inputs(self, X, first=False):
        return as_sentences(X)

    def _read_targets(self, y, inputs):
        return as_tags(y, inputs)

    def _learn_targets(self, targets, y):
        examples = self._examples(targets, targets)
        self.classes_, self.tag_scheme_ = np.array(list_tags(examples.tags)), examples.scheme

    def _examples(self, inputs, targets=None):
        numbers = list(range(len(inputs)))
        examples = _Sentences(list(map(str, numbers)), inputs, targets, None, "X", numbers)
        if targets is not None:
            unify_tags(examples, self.tag_scheme)
        return examples

    def _task_data(self, examples, weights):
        for each in examples.values():
            each.scheme = self.tag_scheme_  # a part of the sentences may look like another one
        return TaskData(examples, labels=self.classes_.tolist(), weights=weights)
