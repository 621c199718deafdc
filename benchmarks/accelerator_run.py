"""What the steps of prove_accelerator.py share: modes with sizes, a file of figures, training steps to time."""

import dataclasses
import gc
import os
import pathlib
import sys
import time
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from peers import ROOT

sys.path.insert(0, str(ROOT))
FIGURES = "figures.json"
SKIPPED = 77  # exit status of a step that the machine cannot make


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is computed, in rows of `length` tokens; models are names in `sizes.BERT`.

    Attributes:
        side, products: matrices whose product is the device's best, and how many are timed.
        small: model whose losses are compared.
        base: model that is fine-tuned in `shapes`, and asked with 8 rows of `length` tokens.
        large: model that is pretrained with `pretraining_rows`, in `accumulation` micro-batches.
        planned, planned_rows: model whose memory is planned, with 128 tokens.
        steps: steps that are timed or compared.
        shapes: rows and tokens of the batches that are fine-tuned; the first two are profiled.
        few_layers: of `base`, for what has to compile often.
    """

    side: int
    products: int
    small: str
    base: str
    large: str
    length: int
    rows: int
    pretraining_rows: int
    accumulation: int
    planned: str
    planned_rows: int
    steps: int
    shapes: tuple[tuple[int, int], ...]
    few_layers: int


DEVICE = Sizes(8192, 50, "bert-small", "bert-base", "bert-large", 128, 32, 256, 4, "bert-base", 64, 20,
               ((32, 128), (256, 128), (16, 512)), 4)  # fmt: skip
REHEARSAL = Sizes(512, 5, "bert-tiny", "bert-tiny", "bert-tiny", 32, 8, 16, 2, "bert-mini", 32, 6,
                  ((8, 32), (16, 32), (4, 64)), 1)  # fmt: skip


class Run:
    """The mode and the sizes of a step, its folder, and its figures.

    Attributes:
        mode: gpu, tpu or rehearsal.
        folder: of the step.
        sizes: of the mode.
        figures: {name: JSON value}; "summary" is its line in the table, "speeds" its rows in the table of speeds,
            "tables" what the page shows below: {title: {"columns": [...], "rows": [[...], ...]}}.
    """

    def __init__(self, mode: str, folder: pathlib.Path):
        self.mode, self.folder, self.figures = mode, folder, {}
        self.sizes = REHEARSAL if mode == "rehearsal" else DEVICE

    def note(self, **figures):
        """Adds figures, and writes all."""
        from bert_tf.utils.files import write_text
        from bert_tf.utils.json_files import json_text

        self.figures |= figures
        write_text(self.folder / FIGURES, json_text(self.figures, indent=1))

    def note_row(self, title: str, columns: Sequence[str], *row):
        """Adds a row of texts and numbers to a table of the page, and writes all figures."""
        tables = self.figures.get("tables", {})
        rows = tables.get(title, {}).get("rows", [])
        self.note(tables={**tables, title: {"columns": columns, "rows": [*rows, row]}})

    def skip(self, reason: str):
        """Ends the step: this machine cannot make it."""
        print(reason, flush=True)
        raise SystemExit(SKIPPED)

    def check_device(self):
        """Ends the step if TensorFlow does not see the devices of the mode: nothing must be measured on the CPU."""
        import tensorflow as tf

        if self.mode == "gpu" and not tf.config.list_physical_devices("GPU"):
            raise SystemExit("TensorFlow does not see the GPU; `bert-tf doctor` shows what is missing.")

    def strategy(self):
        """Returns the strategy of the mode: all cores of a TPU, otherwise one device."""
        from bert_tf.training.strategies import make_strategy

        return make_strategy("tpu" if self.mode == "tpu" else "default")

    @property
    def has_xla_switch(self) -> bool:
        """Whether a step can be compiled with XLA or not; a TPU always compiles it."""
        return self.mode != "tpu"

    def half(self) -> str:
        """Returns the 16-bit precision that suits the device."""
        from bert_tf.training.devices import fastest_precision

        if self.mode != "gpu":
            return "mixed_bfloat16"
        return fastest_precision()[0].replace("float32", "mixed_float16")


def config_of(name: str, **changes):
    """Returns the `EncoderConfig` of a published size."""
    from bert_tf.models.config import EncoderConfig
    from bert_tf.models.sizes import BERT

    return EncoderConfig(**{**BERT[name], **changes})


def make_step(task, precision: str, optimizer: str = "adamw", learning_rate: float = 1e-4, **settings):
    """Returns a `TrainStep` of a task's model with seeded random weights; `settings` are of its `StepConfig`."""
    import keras

    from bert_tf.training.optimizers import OPTIMIZERS
    from bert_tf.training.step import StepConfig, TrainStep

    gc.collect()  # a step before this one, to which its own graphs refer, leaves the memory of the device
    keras.config.set_dtype_policy(precision)
    keras.utils.set_random_seed(0)
    model = task.build_model()
    optimizer = OPTIMIZERS[optimizer](learning_rate)
    optimizer.build(model.trainable_variables)
    return TrainStep(task, model, optimizer, StepConfig(scale_loss=precision == "mixed_float16", **settings))


def make_batch(task, rows: int, length: int, **sizes):
    """Returns a random batch of a task, as tensors."""
    import tensorflow as tf

    from tests.fake_batches import fake_batch

    more = ("masked_lm_weights",) if "masked_lm_ids" in task.targets else ("is_real_example",)
    names = dict.fromkeys((*task.features, *task.targets, *more))
    batch = fake_batch(names, rows, length, task.config.vocab_size, **sizes)
    return {name: tf.constant(values) for name, values in batch.items()}


def timed(call, times: int) -> tuple[float, float]:
    """Returns the seconds of the first call, which compiles, and of each later one; a call returns a scalar."""
    begin = time.perf_counter()
    assert np.isfinite(float(call())), "the result is not finite"
    first = time.perf_counter() - begin
    float(call())
    begin = time.perf_counter()
    for _ in range(times):
        last = call()
    assert np.isfinite(float(last)), "the result is not finite"  # waits for the device
    return first, (time.perf_counter() - begin) / times
