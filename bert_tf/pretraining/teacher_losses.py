"""The teacher of a student that learns on records: an encoder, and for some losses its masked-LM head."""

from bert_tf.checkpoints import heads
from bert_tf.checkpoints.model_files import Description
from bert_tf.data.features import ENCODER_INPUTS
from bert_tf.models.distillation import DistillationModel
from bert_tf.pretraining.objectives.comparisons import COMPARISONS, OF_A_LAYER, RELATIONS, losses_of, shown_by
from bert_tf.tasks.teachers.teacher import Teacher, check_temperature, open_teacher
from bert_tf.utils.settings import Settings

_HEAD = "cls/predictions/.*"
_PART_OF_HEAD = "cls/predictions/output_bias"


def encoder_teacher(settings: Settings, student: Description, longest: int) -> Teacher:
    """Reads the model that `teacher` names, with the outputs that the losses compare.

    To be called in the scope of the strategy.

    Args:
        settings: those of `flags.distillation.OF_PRETRAINING`.
        student: without weights.
        longest: row, in pieces.

    Raises:
        ValueError: settings contradict each other, or the teacher cannot teach this student so.
    """
    losses = losses_of(settings.distillation_losses)
    _check(settings, losses)
    checkpoint, described = open_teacher(settings.teacher, student, longest)
    config, shown = described.config, shown_by([name for name in losses if name in COMPARISONS])
    if config.is_decoder:
        raise ValueError(
            "`teacher` must see the texts on both sides of a piece, as its student does. Received "
            f"{settings.teacher}, which learned left to right; name another."
        )
    if "mlm_logits" in shown and _PART_OF_HEAD not in checkpoint.names:
        others = [name for name in COMPARISONS if "mlm_logits" not in COMPARISONS[name].shown]
        raise ValueError(
            f"`teacher` must have a masked-LM head for the loss soft_targets. Received {settings.teacher}, which has "
            f"none; choose `distillation_losses` of {', '.join(others)}."
        )
    layer = settings.teacher_layer or config.num_hidden_layers
    if layer > config.num_hidden_layers:
        raise ValueError(
            f"`teacher_layer` must be one of the teacher's layers, 1 to {config.num_hidden_layers}. Received: {layer}."
        )
    model = DistillationModel(config, shown, layer, trainable=False)
    excuse = (*heads.others((_HEAD,) if "mlm_logits" in shown else ()), heads.POOLER)
    features = (*ENCODER_INPUTS, "sentence_ids", "masked_lm_positions")
    return Teacher(checkpoint, config, model, excuse, features, layer)


def _check(settings, losses):
    """Raises ValueError where there is no teacher, or a setting is for a loss that is not chosen."""
    if not settings.teacher:
        raise ValueError(
            "`objective=distillation` must come with `teacher`. Received none; name the model that teaches, a "
            "checkpoint's directory."
        )
    for name, of in (
        ("distillation_temperature", ("soft_targets",)),
        ("relation_heads", RELATIONS),
        ("teacher_layer", OF_A_LAYER),
    ):
        if name in settings.given and not set(of) & set(losses):
            raise ValueError(
                f"`{name}` must come with {' or '.join(of)} among `distillation_losses`. Received "
                f"{', '.join(losses)}; add one, or leave `{name}` out."
            )
    check_temperature(settings)
