"""The teacher for distillation on records: an encoder, and for some losses its masked LM head."""

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.checkpoints.names.rows import MASKED_LM_HEAD
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.models.distillation_model import DistillationModel
from bert_tf.pretraining.objectives.distillation_losses import COMPARISONS, DistillationOptions, required_outputs
from bert_tf.tasks.teacher import Teacher, open_teacher

_HEAD = "cls/predictions/.*"


def load_encoder_teacher(options: DistillationOptions, student: ModelDescription, longest: int) -> Teacher:
    """Loads the teacher, with the outputs that the losses compare.

    Must be called in the scope of the distribution strategy.

    Args:
        options: the teacher and the losses.
        student: description of the student, without weights.
        longest: maximum row length, in tokens.

    Raises:
        ValueError: this teacher cannot be used for this student.
    """
    checkpoint, described = open_teacher(options.teacher, student, longest)
    config, shown = described.config, required_outputs([name for name in options.weights if name in COMPARISONS])
    if config.is_decoder:
        raise ValueError(
            f"`teacher` must be bidirectional, like its student. {options.teacher} is a causal (left-to-right) model."
        )
    if "mlm_logits" in shown and MASKED_LM_HEAD not in checkpoint.names:
        others = [name for name in COMPARISONS if "mlm_logits" not in COMPARISONS[name].shown]
        raise ValueError(
            f"The loss soft_targets requires a `teacher` with a masked-LM head, but {options.teacher} has no "
            f"such head. Use `distillation_losses` of {', '.join(others)}."
        )
    layer = options.layer or config.num_hidden_layers
    if layer > config.num_hidden_layers:
        raise ValueError(
            f"`teacher_layer` must be one of the teacher's layers, 1 to {config.num_hidden_layers}; got {layer}."
        )
    model = DistillationModel(config, shown, layer, trainable=False)
    allow_unmatched = (*heads.others((_HEAD,) if "mlm_logits" in shown else ()), heads.POOLER)
    features = (*ENCODER_INPUTS, "sentence_ids", "masked_lm_positions")
    return Teacher(checkpoint, config, model, allow_unmatched, features, layer)
