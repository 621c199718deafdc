"""The option of a BiLSTM between encoder and head, as in the paper's left-to-right model (section 5.1)."""

from bert_tf.models.recurrent import RECURRENT
from bert_tf.tasks.options import RecurrentOptions

RECURRENT_HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def read_lstm_units(options: RecurrentOptions) -> int | None:
    """Returns the units per direction of the requested BiLSTM, or None if there is none.

    Raises:
        ValueError: it contradicts another option.
    """
    if options.lstm_units and options.lora_rank:
        raise ValueError(
            "`lstm_units` and `lora_rank` cannot be combined, because the format of adapters does not include a "
            f"BiLSTM. Received `lstm_units={options.lstm_units}` and `lora_rank={options.lora_rank}`; remove one of "
            "them."
        )
    return options.lstm_units


def lstm_option(units: int | None) -> dict[str, int]:
    """Returns the entry for a BiLSTM in task.json and in the identity of a run; {} if there is none."""
    return {"lstm_units": units} if units else {}
