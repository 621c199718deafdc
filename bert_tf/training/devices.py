"""What the devices suggest: the precision, compilation with XLA, and a warning of a GPU that is not used."""

import tensorflow as tf
from absl import logging

from bert_tf.utils.names import AUTO
from bert_tf.utils.resources import best_precision, has_nvidia_gpu

_BFLOAT16_GPU = (8, 0)  # the lowest compute capability of an NVIDIA GPU that multiplies in bfloat16 (Ampere)


def warn_of_unused_gpu():
    """Logs a warning if the machine has an NVIDIA GPU that TensorFlow does not use, as without CUDA's libraries.

    Call it after `make_strategy`, which must be the first to use TensorFlow.
    """
    if has_nvidia_gpu() and not tf.config.list_physical_devices("GPU"):
        logging.warning(
            "This machine has an NVIDIA GPU, but TensorFlow does not find it: everything runs on the CPU. `bert-tf "
            "doctor` shows what is missing."
        )


# From this number of examples on, XLA saves more time on a GPU than it takes to compile: on an H200, 74 s for a step of
# BERT-base with each of up to four sequence lengths, and then 1,355 rows of 128 tokens a second instead of 600.
_EXAMPLES_FOR_XLA = 400_000


def uses_xla(use_xla: str, examples: float) -> bool:
    """Returns whether steps are compiled with XLA; "auto": if that pays off. On a CPU, oneDNN is faster in bfloat16.

    Call it after `make_strategy`, which must be the first to use TensorFlow.

    Args:
        use_xla: one of `names.USE_XLA`.
        examples: how many the run trains on, over all epochs, or else evaluates and predicts.
    """
    if use_xla != AUTO:
        return use_xla == "true"
    if not examples or not tf.config.list_logical_devices("GPU"):
        return False
    pays = examples >= _EXAMPLES_FOR_XLA
    logging.info(
        "`use_xla=auto`: XLA is %s because %s examples are %s to make up for the compilation time.",
        *("on" if pays else "off", f"{examples:,.0f}", "enough" if pays else "too few"),
    )
    return pays


def fastest_precision(is_tpu: bool = False) -> tuple[str, str]:
    """Returns the precision that is fastest on this machine's devices without scaling the loss, and the reason.

    It is "mixed_bfloat16" where the devices multiply in bfloat16, otherwise "float32". That depends on the hardware
    alone, so that the same command computes the same on the same machine.
    """
    if is_tpu:
        return "mixed_bfloat16", "because a TPU multiplies in bfloat16"
    if not (gpus := tf.config.list_physical_devices("GPU")):
        best = best_precision()
        return best, f"because the CPU {'multiplies' if best != 'float32' else 'does not multiply'} in bfloat16"
    details = tf.config.experimental.get_device_details
    oldest = min(details(gpu).get("compute_capability") or (0, 0) for gpu in gpus)
    if oldest >= _BFLOAT16_GPU:
        return "mixed_bfloat16", "because the GPU multiplies in bfloat16"
    return "float32", "because the GPU does not multiply in bfloat16; `precision=mixed_float16` may be faster"
