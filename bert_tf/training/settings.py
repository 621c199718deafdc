"""Settings of training: devices, optimizer, layers, checkpoints. Imports no TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.utils import names
from bert_tf.utils.settings import NO_EFFECT, option


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """On what a run computes."""

    GROUP: ClassVar[str] = "Devices"

    distribution_strategy: str = option(
        "default",
        "How training is distributed. default: one device; mirrored: all GPUs of this machine; multi_worker: the "
        "GPUs of several machines, each of which runs this command; tpu: a TPU. See "
        "docs/guides/distributed_training.md.",
        choices=names.STRATEGIES,
    )
    worker_hosts: Sequence[str] = option(
        [],
        "With --distribution_strategy=multi_worker: host:port of every worker, the same list on every machine; the "
        "first worker writes the files. Default: taken from the environment variable TF_CONFIG.",
    )
    task_index: int | None = option(None, "With --worker_hosts: index of this worker in the list, from 0.", low=0)
    use_tpu: bool = option(False, "Same as --distribution_strategy=tpu.")
    tpu_name: str | None = option(
        None,
        "Name of the Cloud TPU, or grpc://host:port. Default: the TPUs of this machine.",
    )
    tpu_zone: str | None = option(None, "Zone of the Cloud TPU. Default: this machine's.")
    gcp_project: str | None = option(None, "Google Cloud project of the TPU. Default: this machine's.")
    master: str | None = option(None, "Address of the TPU, as an alternative to --tpu_name.")
    num_tpu_cores: int = option(8, f"{NO_EFFECT}.")
    iterations_per_loop: int = option(1000, f"{NO_EFFECT}.")


@dataclasses.dataclass(frozen=True)
class AdamConfig:
    """Hyperparameters of AdamW and LAMB; LAMB always corrects the bias of the moments.

    Raises:
        ValueError: a value is out of range.
    """

    GROUP: ClassVar[str] = "Training"

    weight_decay_rate: float = option(
        0.01,
        "Decoupled weight decay per step, multiplied by the learning rate; not applied to LayerNorm and biases.",
        low=0, decides_result=True,
    )
    adam_beta1: float = option(
        0.9,
        "Adam's beta1: decay rate of the first-moment estimate.",
        low=0, high=1, decides_result=True,
    )
    adam_beta2: float = option(
        0.999,
        "Adam's beta2: decay rate of the second-moment estimate.",
        low=0, high=1, decides_result=True,
    )
    adam_epsilon: float = option(1e-6, "Adam's epsilon, added to the denominator.", low=0, decides_result=True)
    bias_correction: bool = option(
        False,
        "Correct the bias of Adam's moment estimates. Standard Adam does; BERT's original optimizer does not.",
        decides_result="bias_correction",
    )

    def __post_init__(self):
        for name in ("adam_beta1", "adam_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"`{name}` must be at least 0 and below 1; got {getattr(self, name)}. At 1, the weights would "
                    "never change."
                )
        if not self.adam_epsilon > 0:
            raise ValueError(
                f"`adam_epsilon` must be above 0; got {self.adam_epsilon}. A weight without a gradient would "
                "become 0 / 0."
            )
        if not self.weight_decay_rate >= 0:
            raise ValueError(f"`weight_decay_rate` must not be negative; got {self.weight_decay_rate}.")


@dataclasses.dataclass(frozen=True)
class OptimizerSettings(AdamConfig):
    """How a step changes the weights."""

    GROUP: ClassVar[str] = "Training"

    learning_rate: float = option(5e-5, "Peak learning rate.", low=0, essential=True, decides_result="learning_rate")
    schedule: str = option(
        "linear",
        "Learning-rate schedule after warmup.",
        choices=names.SCHEDULES, decides_result=True,
    )
    clip_norm: float = option(
        1.0,
        "Maximum global norm of the gradients; larger gradients are scaled down to it. 0 turns clipping off.",
        low=0, decides_result=True,
    )


@dataclasses.dataclass(frozen=True)
class ComputationSettings:
    """How a step is computed."""

    GROUP: ClassVar[str] = "Training"

    gradient_accumulation_steps: int = option(
        1,
        "Number of micro-batches that each batch is split into, to save memory; the result is the same.",
        low=1, decides_result=True,
    )
    precision: str = option(
        "float32",
        "Data type of the computation; weights stay float32. auto: mixed_bfloat16 if the CPU, GPU or TPU multiplies "
        "in bfloat16, otherwise float32; a resumed run keeps its precision.",
        choices=(names.AUTO, *names.PRECISIONS), group="Devices", essential=True, decides_result=True,
    )
    use_xla: str = option(
        "auto",
        "Compile with XLA. auto: for long runs on a GPU; always on a TPU.",
        choices=names.USE_XLA, group="Devices",
    )
    compilation_cache_dir: str = option(
        names.AUTO,
        "Directory for programs compiled by XLA, which later runs load instead of compiling them again. auto: "
        "bert_tf/xla in the user's cache directory; none: the programs are not kept.",
        group="Devices",
    )
    seed: int = option(
        0,
        "Random seed for new weights, example order and dropout.",
        low=0, essential=True, decides_result=True,
    )
    deterministic: bool = option(False, "Make the same command produce bit-identical weights; may be slower.")


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """When checkpoints are saved, which are kept, and in which other formats."""

    GROUP: ClassVar[str] = "Training"

    overwrite_output_dir: bool = option(
        False,
        "Delete an earlier run in --output_dir and start over. Otherwise, an interrupted run resumes.",
        group="Output", essential=True, requires=("do_train",),
    )
    save_checkpoints_steps: int = option(1000, "Number of steps between checkpoints.", low=1)
    keep_checkpoints: int = option(5, "How many recent checkpoints to keep.", low=1)
    keep_optimizer: bool = option(
        False,
        "Keep the optimizer state in the last and the best checkpoint. Otherwise, both contain only the model once the "
        "run has ended.",
        requires=("do_train",),
    )
    save_format: Sequence[str] = option(
        [],
        "Formats in which the trained model is also saved, each in a subdirectory of --output_dir with the format's "
        "name.",
        choices=names.FORMATS, group="Export",
    )


@dataclasses.dataclass(frozen=True)
class TrainingSettings(DeviceSettings, OptimizerSettings, ComputationSettings, CheckpointSettings):
    """Settings of fine-tuning and of pretraining."""

    GROUP: ClassVar[str] = "Training"

    train_batch_size: int = option(
        32,
        "Examples per training step, summed over all devices.",
        low=1, essential=True, decides_result=True,
    )
    eval_batch_size: int = option(8, "Batch size of evaluation.", low=1, group="Evaluation")
    tracking: str | None = option(
        None,
        "Also log losses and metrics to Weights & Biases or MLflow; the package must be installed.",
        choices=names.TRACKERS, requires=("do_train",),
    )


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """Length of fine-tuning, and which layers train how fast.

    `freeze_layers` and `layerwise_lr_decay` are those of `LayerRates`, `reinit_layers` that of `RunConfig`.
    """

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    num_train_epochs: float = option(
        3.0,
        "Number of passes over the training examples.",
        low=0, group="Training", essential=True, decides_result="num_train_steps",
    )
    warmup_proportion: float = option(
        0.1,
        "Fraction of the training steps used for warmup of the learning rate.",
        low=0, high=1, group="Training", essential=True, decides_result="num_warmup_steps",
    )
    freeze_layers: str = option(
        "0",
        "Number of layers to freeze, from the embeddings up; `all` freezes the whole encoder, so that only the head "
        "is trained.",
        requires=("do_train",), decides_result="layer_rates",
    )
    layerwise_lr_decay: float = option(
        1.0,
        "Learning-rate multiplier per layer, from the top down. With 1, all layers train at the same learning rate.",
        low=0, high=1, requires=("do_train",), decides_result="layer_rates",
    )
    unfreeze_epochs: float = option(
        0.0,
        "Gradual unfreezing: only the head is trained first, and each time this many epochs have passed, one more "
        "layer is unfrozen from the top. 0 trains all layers from the start.",
        low=0, requires=("do_train",),
        decides_result="layer_rates",
        excludes=("learning_rate=auto",),  # the range test cannot account for layers that are unfrozen later
    )
    reinit_layers: int = option(
        0,
        "Number of top layers that start, like the pooler, from random weights instead of the checkpoint's.",
        low=0, requires=("do_train",), decides_result=True,
    )


@dataclasses.dataclass(frozen=True)
class BatchingSettings:
    """Which examples share a batch, or a row of it."""

    GROUP: ClassVar[str] = "Training"

    bucket_by_length: bool = option(
        True,
        "Batch examples of similar length together, and pad only to the longest of a batch.",
        decides_result=True,
    )
    bucket_batches: int | None = option(
        None,
        "Number of batches whose examples are sorted by length together. With fewer, batches are more random and "
        "need more padding; 1 makes them fully random. Default: one fortieth of the batches of an epoch, but at "
        "least 4 and at most 50.",
        low=1, requires=("bucket_by_length",), decides_result="bucket_batches",
    )
    pack_examples: bool = option(
        False,
        "Pack several short examples into one training sequence, which needs little padding.",
        decides_result="pack_examples",
    )
