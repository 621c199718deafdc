"""What a model scores in int8, held to what it scores otherwise: neither unmeasured nor too little is exported."""

from collections.abc import Mapping

from absl import logging

from bert_tf.evaluation.metrics import largest_fall
from bert_tf.utils.settings import Settings


def check_tolerance(settings: Settings):
    """Raises ValueError where a score in int8 is to be near another, but there will be none of both."""
    if "int8_tolerance" not in settings.given:
        return
    for is_there, what in ((settings.export_dtype == "int8", "export_dtype=int8"), (settings.do_eval, "do_eval")):
        if not is_there:
            raise ValueError(
                f"`int8_tolerance` must come with `{what}`. Received it without; say what is to be scored in int8."
            )


def check_scores(before: Mapping[str, float], after: Mapping[str, float], tolerance: float):
    """Tells in the log which score changes most in int8.

    Args:
        before, after: {name: score} of the same examples, after in int8.
        tolerance: by what share of itself a score may be lower.

    Raises:
        ValueError: one is lower by more.
    """
    fall = largest_fall(before, after)
    if fall is None:
        return
    name, share = fall
    told = f"{name} {after[name]:.4f} in int8 and {before[name]:.4f} before"
    if share > tolerance:
        raise ValueError(
            f"In int8 no score may be lower by more than `int8_tolerance={tolerance}` of itself. Received {told}; "
            "nothing was exported: take another `export_dtype`, or allow more."
        )
    logging.info("What changes most in int8: %s.", told)
