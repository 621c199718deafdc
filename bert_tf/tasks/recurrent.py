"""A BiLSTM between the encoder and the head, as the paper puts it on its left-to-right model (section 5.1)."""

from bert_tf.models.recurrent import RECURRENT
from bert_tf.utils.settings import Settings

HEAD = (f"{RECURRENT}/.*",)  # the paths of its weights


def lstm_units(settings: Settings) -> int | None:
    """Returns the units of each direction of the BiLSTM that the settings ask for; None: there is to be none.

    Raises:
        ValueError: it does not go together with another setting.
    """
    units = settings.get("lstm_units")
    if units and settings.lora_rank:
        raise ValueError(
            "`lstm_units` must come without `lora_rank`, for adapters are kept in a form that has no BiLSTM. Received "
            f"`lstm_units={units}` and `lora_rank={settings.lora_rank}`; leave one of the two out."
        )
    return units


def as_option(units: int | None) -> dict[str, int]:
    """Returns what task.json, and what a run must have alike to be continued, say of a BiLSTM; {}: there is none."""
    return {"lstm_units": units} if units else {}
