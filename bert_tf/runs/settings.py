"""Settings of fine-tuning and of pretraining. Imports no TensorFlow, so that `--help` is quick.

The class of a task's fine-tuning has `FineTuningSettings` and the task's options as its bases: `fine_tuning_settings`.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from bert_tf.export.settings import ExportSettings
from bert_tf.pretraining.settings import MaskingSettings
from bert_tf.runs.pretraining_recipes import RECIPES
from bert_tf.tasks.options import RunOptions, TeacherOptions
from bert_tf.training.settings import BatchingSettings, FineTuningConfig, TrainingSettings
from bert_tf.utils import names
from bert_tf.utils.settings import SCORES, UserSettings, option, option_as


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Which model a run starts from."""

    GROUP: ClassVar[str] = "Model"

    bert_config_file: str | None = option(
        None,
        "Model configuration (JSON). Default: the one next to --init_checkpoint.",
        decides_result="hidden_size",
    )
    vocab_file: str | None = option(
        None,
        "Vocabulary file. Default: the one next to --init_checkpoint.",
        decides_result="vocabulary",
    )
    do_lower_case: bool | None = option(
        None,
        "Lowercase the text. Default: the checkpoint's setting, otherwise true.",
        decides_result="train_examples",
    )


@dataclasses.dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters, as `Lora`."""

    GROUP: ClassVar[str] = "Layers, adapters and loss"

    lora_rank: int = option(
        0,
        "Rank of low-rank adapters (LoRA): only the adapters, the pooler and the head are trained. 0 turns LoRA "
        "off.",
        low=0, essential=True, decides_result="lora",
        excludes=("reinit_layers", "freeze_layers=all"),  # which would make the adapters useless
    )
    lora_alpha: float | None = option(
        None,
        "LoRA scaling: adapters are multiplied by this value divided by --lora_rank. Default: the value of "
        "--lora_rank.",
        low=0, requires=("lora_rank",), decides_result="lora",
    )
    lora_targets: Sequence[str] = option(
        ["query", "value"],
        "Attention projections that get an adapter: query, key, value, output.",
        requires=("lora_rank",), decides_result="lora",
    )


# A task's options inherit from `RunOptions`; as a base here, it would override their defaults.
if TYPE_CHECKING:
    from bert_tf.tasks.options import RunOptions as _RunOptions
else:
    _RunOptions = object


@dataclasses.dataclass(frozen=True)
class FineTuningSettings(
    ModelSettings, TrainingSettings, FineTuningConfig, BatchingSettings, LoraSettings, ExportSettings, _RunOptions
):
    """Settings of fine-tuning, whatever the task. Its instances are those of `fine_tuning_settings`."""

    GROUP: ClassVar[str] = "What to do"

    predict_batch_size: int = option(8, "Batch size of prediction.", low=1, group="Prediction")
    do_export: bool = option(False, "Export the trained model for TensorFlow Serving.", essential=True)
    export_dir: str | None = option(
        None,
        "Model base directory, as for TensorFlow Serving; the export becomes its next version. Default: the "
        "subdirectory export of --output_dir, or litert, onnx or openvino with that value of --export_for.",
        group="Export", essential=True,
    )
    int8_tolerance: float = option(
        0.01,
        "Maximum relative drop of a metric in int8; nothing is exported if a metric drops further.",
        low=0.0, high=1.0, group="Export", requires=("export_dtype=int8", "do_eval"),
    )
    strict_data: bool = option(
        False,
        "Treat data-check warnings as errors: nothing is trained or written.",
        group="Data", essential=True,
    )
    dry_run: bool = option(
        False,
        "Check the data and report the memory and time that training would take; nothing is written.",
        essential=True,
    )
    sort_predictions: str = option(
        "file",
        "Order of eval_predictions.tsv. file: the order of the examples; errors: errors first, the most confident "
        "ones at the top.",
        choices=names.PREDICTION_ORDERS, group="Evaluation", requires=("do_eval",),
    )
    output_dir: str | None = option_as(RunOptions, "output_dir", required=True)
    learning_rate: float | str = option_as(
        TrainingSettings, "learning_rate", words=(names.AUTO,),
        help="Peak learning rate, or auto: chosen with a short range test before the first step.",
    )


@functools.cache
def fine_tuning_settings(options: type[RunOptions], *others: type[RunOptions]) -> type[FineTuningSettings]:
    """Returns the settings class of fine-tuning a task.

    Args:
        options: options of the task.
        others: further options that it follows.
    """
    bases = (FineTuningSettings, *(each for each in others if not issubclass(options, each)), options)
    return dataclasses.make_dataclass(f"FineTuning{options.__name__}", [], bases=bases, frozen=True)


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(ModelSettings, TrainingSettings, MaskingSettings, UserSettings):
    """Settings of pretraining on records."""

    GROUP: ClassVar[str] = "Training"

    output_dir: str | None = option_as(RunOptions, "output_dir", required=True)
    init_checkpoint: str | None = option_as(
        RunOptions, "init_checkpoint",
        excludes=("start_embeddings=neighbors", "start_positions=sinusoidal"),  # its embeddings are trained already
    )
    do_train: bool = option_as(RunOptions, "do_train")
    do_eval: bool = option_as(RunOptions, "do_eval")
    max_seq_length: int = option_as(RunOptions, "max_seq_length", decides_result="input_file")
    gradient_checkpointing: bool = option_as(RunOptions, "gradient_checkpointing")
    vocab_file: str | None = option_as(
        ModelSettings, "vocab_file",
        help="Vocabulary file. Default: the one next to --init_checkpoint, otherwise the one next to the records.",
    )
    # Records are tokenized already.
    do_lower_case: bool | None = option_as(ModelSettings, "do_lower_case", decides_result=False)
    eval_batch_size: int = option_as(TrainingSettings, "eval_batch_size", decides_result=SCORES)
    use_xla: str = option_as(TrainingSettings, "use_xla", decides_result="fixed_shapes")
    max_predictions_per_seq: int = option_as(
        MaskingSettings, "max_predictions_per_seq",
        help="Maximum number of masked tokens per sequence: that of the records, or for records without masks "
        "(`pretrain data --dynamic_masking`) the number to draw.",
    )
    distillation_temperature: float = option_as(
        TeacherOptions, "distillation_temperature",
        requires=("objective=distillation",),
    )
    dry_run: bool = option(
        False,
        "Report whether training fits, without training: parameters, memory, tokens per step.",
        group="What to do", essential=True,
    )
    teacher: str | None = option(
        None,
        "Teacher model; its vocabulary must be that of the records.",
        group="Distillation", requires=("objective=distillation",), decides_result="teacher", reads_model=True,
    )
    input_file: Sequence[str] | None = option(
        None,
        "Training records made with `pretrain data`: files, directories or patterns.",
        group="Data", essential=True, decides_result="input_file",
    )
    eval_file: Sequence[str] | None = option(
        None,
        "Held-out records, evaluated at each checkpoint and with --do_eval. Default: none at checkpoints, "
        "--input_file with --do_eval.",
        group="Data", essential=True, decides_result=SCORES,
    )
    phases: str | None = option(
        None,
        "Training phases in order, with sequences of different lengths: LENGTHxSTEPS, or a percentage of "
        "--num_train_steps, and @BATCH if the batch size differs, such as 128x90%,512x10%@8. Each phase reads the "
        "files of --input_file whose sequences have its length.",
        essential=True, decides_result="phases",
    )
    recipe: str | None = option(
        None,
        "Recipe by name: sets flags you omit, and logs their values.",
        choices=tuple(RECIPES), essential=True,
    )
    num_train_steps: int = option(
        100000,
        "Total number of training steps.",
        low=1, essential=True, decides_result="num_train_steps",
    )
    num_warmup_steps: int = option(
        10000,
        "Number of steps during which the learning rate warms up.",
        low=0, essential=True, decides_result=True,
    )
    max_eval_steps: int = option(
        100,
        "Maximum number of batches per evaluation.",
        low=1, group="Evaluation", decides_result=SCORES,
    )
    optimizer: str = option(
        "adamw",
        "Optimizer: BERT's Adam (adamw), or LAMB for batches of thousands.",
        choices=names.OPTIMIZERS, decides_result=True,
    )
    start_embeddings: str = option(
        "random",
        "Initial word embeddings of a new model. random; neighbors: computed from the co-occurrence of tokens in "
        "the records.",
        choices=names.START_EMBEDDINGS, renamed_choices=(("neighbours", "neighbors"),), decides_result=True,
    )
    start_positions: str = option(
        "random",
        "Initial position embeddings of a new model. random; sinusoidal: sines and cosines.",
        choices=names.START_POSITIONS, decides_result=True,
    )
    embedding_lr_factor: float = option(
        1.0,
        "Learning rate of the word embeddings, relative to that of all other weights. 0 freezes them, which makes "
        "steps faster.",
        low=0, high=1, decides_result="layer_rates",
    )
    average_weights: float = option(
        0.0,
        "Weight averaging: the result is a moving average of the weights, comparable to averaging the last FRACTION of "
        "the steps, such as 0.1; training continues from the weights themselves. 0 turns it off.",
        low=0, high=1, decides_result=True,
    )
    objective: str = option(
        "masked_lm",
        "Pretraining objective. masked_lm: masked language modeling, also with the masks and sentences of albert, "
        "roberta or ernie; left_to_right: causal language modeling; electra: replaced-token detection against a "
        "small generator; distillation: matching the representations of --teacher.",
        choices=names.OBJECTIVES, group="Pretraining objective and masking", essential=True, decides_result=True,
    )
    generator_size: float = option(
        0.25,
        "Width, heads and feed-forward width of the generator, as a fraction of the model's.",
        group="Pretraining objective and masking", requires=("objective=electra",), decides_result="generator",
    )
    dropout_prob: float | None = option(
        None,
        "Dropout rate in pretraining; the saved model keeps the rate of its configuration, for fine-tuning. "
        "Default: the rate of the configuration.",
        low=0, high=0.99, decides_result="dropout_prob",
    )
    skip_bad_steps: bool = option(
        True,
        "Skip and count a step whose loss is not finite or spikes, and go back to a checkpoint after 20 in a row.",
        decides_result="guard",
    )
    distillation_losses: Sequence[str] = option(
        ["query_relations", "key_relations", "value_relations"],
        "Distillation losses, each with a weight after a colon if it is not 1: soft_targets, masked_lm, hidden, "
        "attention, query_relations, key_relations, value_relations.",
        group="Distillation", requires=("objective=distillation",), decides_result="distillation_losses",
    )
    teacher_layer: int | None = option(
        None,
        "Layer of the teacher whose attention and relations are matched, 1 being the lowest. Default: its last "
        "layer.",
        low=1, group="Distillation", requires=("objective=distillation",), decides_result="teacher_layer",
    )
    relation_heads: int | None = option(
        None,
        "Number of relation heads that queries, keys and values are split into to be compared with each other. "
        "Default: the number of the teacher's attention heads.",
        low=1, group="Distillation", requires=("objective=distillation",), decides_result="relation_heads",
    )
