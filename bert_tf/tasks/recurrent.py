"""The option of a BiLSTM between encoder and head, as in the paper's left-to-right model (section 5.1)."""

from bert_tf.models.recurrent import RECURRENT

RECURRENT_HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def lstm_option(units: int | None) -> dict[str, int]:
    """Returns the entry for a BiLSTM in task.json and in the identity of a run; {} if there is none."""
    return {"lstm_units": units} if units else {}
