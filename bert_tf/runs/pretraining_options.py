"""What the settings of a pretraining mean: its objective, masks, records and phases."""

from absl import logging

from bert_tf.checkpoints.loading import directory_of
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.dynamic_masking import masks_for
from bert_tf.pretraining.masking import Masking
from bert_tf.pretraining.objectives.distillation_losses import OF_A_LAYER, RELATIONS, DistillationOptions
from bert_tf.pretraining.objectives.registry import OBJECTIVES, Objective
from bert_tf.pretraining.phases import Phase, Phases, find_training_files, parse_phases
from bert_tf.runs.pretraining_recipes import with_recipe
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.runs.start_model import model_paths
from bert_tf.tasks.teacher import check_temperature
from bert_tf.training.run_record import recorded_settings
from bert_tf.utils.settings import command_line, flags_of

_MASK_FLAGS = ("masking", "masked_lm_prob", "phrase_file", "mask_token_prob", "random_token_prob")


def make_objective(settings: PretrainingSettings) -> Objective:
    """Returns the objective that the settings describe.

    Raises:
        ValueError: a setting of the objective is wrong.
    """
    name = settings.objective
    options = {"electra": lambda flags: flags.generator_size, "distillation": _distillation_options}
    return OBJECTIVES[name](options[name](settings)) if name in options else OBJECTIVES[name]()


def _distillation_options(settings):
    options = DistillationOptions(
        settings.teacher,
        tuple(settings.distillation_losses),
        settings.distillation_temperature,
        settings.teacher_layer,
        settings.relation_heads,
    )
    for name, losses in (
        ("distillation_temperature", ("soft_targets",)),
        ("relation_heads", RELATIONS),
        ("teacher_layer", OF_A_LAYER),
    ):
        if name in settings.given and not set(losses) & set(options.weights):
            raise ValueError(
                f"`{name}` requires {' or '.join(losses)} among `distillation_losses`; got "
                f"{', '.join(options.weights)}. Add one, or remove `{name}`."
            )
    check_temperature(settings.distillation_temperature)
    return options


def make_masking(settings: PretrainingSettings) -> Masking:
    """Returns how records without masks are masked as they are read, those of the shortest phase."""
    return Masking(
        settings.masking,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.mask_token_prob,
        settings.random_token_prob,
    )


def choose_masks(settings, objective, tokenizer, several, shortest):
    """Returns what `masks_for` gives; None if the objective masks nothing, or if all records are masked already.

    Raises:
        ValueError: a flag sets how to mask records that are masked already.
    """
    given = sorted(set(_MASK_FLAGS) & settings.given)
    if not objective.draws_masks:
        if given:
            names = ", ".join(f"`{name}`" for name in given)
            logging.warning("%s has no effect with `objective=%s`, which masks nothing.", names, settings.objective)
        return None
    if not all(records.masked for records in several):
        return masks_for(make_masking(settings), settings.phrase_file, tokenizer, several, shortest)
    if given:
        raise ValueError(
            f"`{given[0]}` requires records without masks, but some are masked already, such as "
            f"{several[0].paths[0]}. Create them with `pretrain data` and `dynamic_masking`."
        )
    if settings.phases and "max_predictions_per_seq" in settings.given:
        raise ValueError(
            "`phases` and `max_predictions_per_seq` cannot be combined for records that are masked already, because "
            "the records of each phase have their own number. Remove `max_predictions_per_seq`."
        )
    return None


def plan_records(settings: PretrainingSettings) -> Phases:
    """Returns what a run reads; without --phases, one kind of rows all along.

    Raises:
        ValueError: the record files are missing, or do not match the flags.
    """
    if settings.do_train and not settings.input_file or not (settings.input_file or settings.eval_file):
        raise ValueError(
            "No records: `do_train` requires `input_file`, and `do_eval` requires `eval_file` or `input_file`. Create "
            "records with `pretrain data`."
        )
    batch_size, steps = settings.train_batch_size, settings.num_train_steps
    if not settings.input_file:
        return Phases((Phase(Records.of(settings.eval_file), batch_size, steps),))
    if settings.phases and "max_seq_length" in settings.given:
        raise ValueError(
            "`phases` and `max_seq_length` cannot be combined, because the phases name their lengths; got "
            f"{settings.phases} and {settings.max_seq_length}. Remove `max_seq_length`."
        )
    files = find_training_files(settings.input_file, settings.eval_file)
    if settings.phases:
        in_all = "num_train_steps" in settings.given or "%" in settings.phases
        return parse_phases(settings.phases, files, batch_size, steps if in_all else None)
    records = Records.of(files, settings.max_seq_length, settings.max_predictions_per_seq)
    return Phases((Phase(records, batch_size, steps),))


def complete(settings: PretrainingSettings) -> PretrainingSettings:
    """Returns the settings, completed from the recipe, the objective and a trained run where the user gave no value.

    Raises:
        ValueError: a setting was given that means something with another objective alone.
    """
    settings = _as_trained(with_recipe(settings))
    return settings.adopt({"masking": make_objective(settings).masking})


def _as_trained(settings):
    """Returns the settings, where nothing is trained, with what the model's own run says of its objective.

    A generator has the shape that it was given there, and nothing else can be filled with its weights. Where the user
    says something of the objective, what the run says is left aside.
    """
    needed = f"objective={settings.objective}"
    own = [flag.name for flag in flags_of(PretrainingSettings) if needed in flag.requires]
    if settings.do_train or settings.given & set(own):
        return settings
    for path in filter(None, model_paths(settings)):
        said = recorded_settings(directory_of(path))
        if said and said.get("objective") == settings.objective:
            values = {name: said[name] for name in own if said.get(name) is not None}
            logging.info("Using the settings of the run in %s: %s", path, " ".join(command_line(values)))
            return settings.adopt(values)
    return settings
