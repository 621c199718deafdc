"""The look at the data of a run: what it finds goes into the log, and with `strict_data` ends the run."""

from absl import logging

from bert_tf.data.checks.findings import Finding
from bert_tf.data.checks.look import look, look_at_rows
from bert_tf.tasks.task import FineTuned, TaskData
from bert_tf.utils.counts import number_of, word_for
from bert_tf.utils.settings import Settings


class DataChecks:
    """What is found in the examples of one run, and told in the log as soon as it is.

    Attributes:
        samples: split -> what is checked of its examples.
        findings: so far.
    """

    def __init__(self, kind: type[FineTuned], data: TaskData, settings: Settings):
        self._settings = settings
        self.samples = kind.samples(data, settings)
        self.findings = []
        self._add(look(self.samples))

    def look_at_rows(self, rows: dict):
        """Looks at what was cut off when the examples were laid out.

        Args:
            rows: split -> `dataset.Tokenized`, or what has its face.
        """
        cuts = {split: getattr(each, "cut", None) for split, each in rows.items()}
        offers_windows = self._settings.get("long_text", "window") != "window"
        self._add(look_at_rows(self.samples, cuts, offers_windows))

    def refuse(self):
        """Raises ValueError where there are warnings and `strict_data` does not let them pass."""
        refuse_warnings(self.findings, self._settings)

    def _add(self, findings):
        for finding in findings:
            logging.log(logging.WARNING if finding.is_warning else logging.INFO, "%s", finding)
        self.findings += findings


def refuse_warnings(findings: list[Finding], settings: Settings):
    """Raises ValueError where there are warnings among the findings and `strict_data` is set."""
    warnings = [finding for finding in findings if finding.is_warning]
    if warnings and settings.get("strict_data"):
        named = ", ".join(f"{finding.kind} in {finding.path}" for finding in warnings)
        paths = {finding.path for finding in warnings}
        raise ValueError(
            f"`strict_data` must come with data without warnings. Received {number_of(len(warnings), 'warning')} (see "
            f"above): {named}; correct the {word_for(len(paths), 'file', 'files')}, or leave the flag out."
        )
