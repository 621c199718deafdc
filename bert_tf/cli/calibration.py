"""By which examples a run sets the ranges of an export in integers: texts of a file, or some that it trains on."""

from typing import Any

from bert_tf.export.calibration import BATCH_SIZE, MOST_EXAMPLES, read_examples
from bert_tf.export.form import Form
from bert_tf.tasks.task import TrainedTask
from bert_tf.training.batching import Batching
from bert_tf.utils.settings import Settings


def check_calibration(settings: Settings, trained: TrainedTask):
    """Raises ValueError where a file of texts is given that sets no ranges: before the long work."""
    path = settings.get("calibration_file")
    if path is None:
        return
    if not settings.do_export:
        raise ValueError(
            "`calibration_file` must come with `do_export`, whose integers its texts set ranges for. Received it "
            "without; leave it out, or export."
        )
    read_examples(path, trained.task, trained.text_inputs)


def calibration_of(settings: Settings, form: Form, batching: Batching, rows: dict[str, Any]):
    """Returns the examples as `export_trained` takes them; None: there are none, or the form needs none.

    Args:
        settings: of the run.
        form: of the export.
        batching: of the run.
        rows: split -> the examples in rows; of "train" some are taken, where no file is given.
    """
    if not form.takes_ranges:
        return None
    if settings.calibration_file or not settings.do_train:
        return settings.calibration_file
    return batching.sample(rows["train"], MOST_EXAMPLES, settings.seed, BATCH_SIZE)
