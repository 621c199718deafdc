"""What a classifier's run leaves of its outputs: scores over all evaluation files, and the files of answers."""

import dataclasses

import numpy as np
from absl import logging

from bert_tf.data.tables import Examples
from bert_tf.evaluation.results import write_results
from bert_tf.glue import submission
from bert_tf.tasks.classification.source import Source
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.classification.task import writers as answers


@dataclasses.dataclass
class Classified:
    """The outputs of one model, which `task` describes, on the texts of one source.

    Attributes:
        directory: where files go.
        task: with the temperature that the probabilities shall have.
        source: where the texts are from.
        texts: split -> examples; those of "dev" and "test" give their names to files and scores: what belongs to
            "dev_mismatched" ends in `_mismatched`.
    """

    directory: str
    task: ClassificationTask
    source: Source
    texts: dict[str, Examples]

    def splits(self, kind: str) -> list[str]:
        """Returns the splits of a kind that were read, "dev" or "test"."""
        return [split for split in self.texts if split.split("_")[0] == kind]

    def scores(self, found: dict, examples: dict, fit_temperature: bool = False) -> dict[str, float]:
        """Returns the metrics and the mean `loss` over each split.

        Args:
            found: split -> logits [n, L] and losses [n].
            examples: split -> tokenized examples, which have the targets.
            fit_temperature: fit the task's temperature on the first split before.
        """
        if fit_temperature:
            first = next(iter(found))
            found_best = self.task.fit_temperature(found[first][0], examples[first].targets)
            logging.info("The temperature that fits %s best: %.4f", self.texts[first].path, found_best)
        scores = {}
        for split, (outputs, losses) in found.items():
            values = self.task.metrics(outputs, examples[split].targets)
            values["loss"] = float(np.mean(losses, dtype=np.float64))
            scores |= {f"{name}{_suffix(split)}": value for name, value in values.items()}
        return scores

    def write_scored(self, found: dict, scores: dict[str, float], global_step: int):
        """Writes eval_results.txt, and eval_predictions.tsv for each split; `found` is as for `scores`."""
        write_results(self.directory, scores, global_step)
        for split, (outputs, _) in found.items():
            given = self._chosen(self.task.answers(outputs))
            answers.write_eval_predictions(
                self.directory, self.texts[split], given, self.source.separator, _suffix(split)
            )

    def write_answers(self, split: str, outputs: np.ndarray):
        """Writes test_results.tsv and predictions.jsonl, and of a GLUE task the leaderboard's file.

        Args:
            split: of "test".
            outputs: logits [n, L].
        """
        values, texts = self.task.answers(outputs), self.texts[split]
        labels = self.task.labels if self.task.problem.has_labels else None
        answers.write_predictions(self.directory, texts, values, labels, _suffix(split))
        if wanted := self.source.leaderboard(split):
            name, scale = wanted
            submission.write_answers(self.directory, name, texts.ids, self._chosen(values), scale)

    def _chosen(self, values):
        return answers.chosen(values, self.task.labels, self.task.problem_name)


def _suffix(split):
    return split.removeprefix("dev").removeprefix("test")
