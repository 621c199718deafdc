"""Checks of a run's examples before training: log, overview page, `--strict_data`."""

from absl import logging

from bert_tf.data.checked_examples import CheckedExamples
from bert_tf.data.example_checks import check_samples
from bert_tf.data.findings import DataFinding
from bert_tf.data.token_checks import check_truncation, check_unknown_tokens
from bert_tf.runs.settings import FineTuningSettings
from bert_tf.tasks.base import FineTuningTask, TaskData
from bert_tf.tasks.options import RunOptions
from bert_tf.utils.counts import number_of, word_for
from bert_tf.utils.token_counts import TokenCounts


class DataChecks:
    """Findings in the examples of one run, logged as soon as they are made.

    Args:
        samples: split -> what is checked of its examples, as `lint_samples` returns it.
        settings: settings of the run.

    Attributes:
        samples: likewise.
        findings: so far.
    """

    def __init__(self, samples: dict[str, CheckedExamples], settings: FineTuningSettings):
        self._settings = settings
        self.samples = samples
        self.findings = []
        self._add(check_samples(samples))

    def look_at_rows(self, rows: dict, counts: dict[str, TokenCounts]):
        """Checks how many examples were truncated, and how many tokens are unknown.

        Args:
            rows: split -> `dataset.EncodedDataset`, or an object with its interface.
            counts: split -> the counts of its tokens.
        """
        cuts = {split: getattr(each, "truncation", None) for split, each in rows.items()}
        offers_windows = getattr(self._settings, "long_text", "window") != "window"
        self._add(check_truncation(self.samples, cuts, offers_windows))
        self._add(check_unknown_tokens(self.samples, counts))

    def refuse(self):
        """Raises ValueError if there are warnings and `strict_data` is set."""
        if self._settings.strict_data:
            refuse_warnings(self.findings)

    def _add(self, findings):
        for finding in findings:
            logging.log(logging.WARNING if finding.is_warning else logging.INFO, "%s", finding)
        self.findings += findings


def lint_samples(kind: type[FineTuningTask], data: TaskData, options: RunOptions) -> dict[str, CheckedExamples]:
    """Returns {split: what is checked of its examples}, without the splits that cannot be checked."""
    samples = {split: kind.checked_examples(examples, data, options) for split, examples in data.examples.items()}
    return {split: sample for split, sample in samples.items() if sample is not None}


def refuse_warnings(findings: list[DataFinding]):
    """Raises ValueError if there are warnings among the findings, as `strict_data` demands."""
    warnings = [finding for finding in findings if finding.is_warning]
    if warnings:
        named = ", ".join(f"{finding.kind} in {finding.path}" for finding in warnings)
        paths = {finding.path for finding in warnings}
        raise ValueError(
            f"The data check found {number_of(len(warnings), 'warning')} (see above), which `strict_data` treats as "
            f"errors: {named}. Fix the {word_for(len(paths), 'file', 'files')}, or remove `strict_data`."
        )
