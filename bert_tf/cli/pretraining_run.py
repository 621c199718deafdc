"""One run of pretraining: records, training and results. `run_pretraining` is the command."""

import dataclasses
import os

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.loading import Description, directory_of, save_description
from bert_tf.cli.checkpoints import check_formats, describe_model, model_paths, with_vocabulary_of
from bert_tf.cli.options_from_flags import make_run_config
from bert_tf.cli.pretraining_recipes import with_recipe
from bert_tf.export.conversion.convert import save_generator
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining import record_compatibility
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.masking import Masking, masks_for, masks_identity
from bert_tf.pretraining.objectives.distillation import (
    OF_A_LAYER,
    RELATIONS,
    DistillationOptions,
    count_relation_matrices,
)
from bert_tf.pretraining.objectives.registry import OBJECTIVES, Objective
from bert_tf.pretraining.phases import Phase, Phases, check_sentences, find_training_files, parse_phases
from bert_tf.pretraining.record_metadata import vocabulary_fingerprint
from bert_tf.pretraining.start_weights import start_weights
from bert_tf.tasks.distillation import check_temperature
from bert_tf.training.distribution import by_chief, check_batch_size
from bert_tf.training.history import History
from bert_tf.training.learning_rate import word_rate
from bert_tf.training.loss_spike_guard import GuardConfig, Rollback, order_seed
from bert_tf.training.memory import StepShape, TeacherShape, available_memory, estimate, warn_if_too_large
from bert_tf.training.run_record import RunRecord, recorded_settings
from bert_tf.training.state import RunConfig
from bert_tf.training.tracking import check_tracking, make_history
from bert_tf.training.trainer import prepare_directory
from bert_tf.utils.settings import Settings, command_line

# === Largest step ===
# Which step of a pretraining needs the most memory: what `--dry_run` tells, and the warning before the first step.


def largest_step(pretraining, config: EncoderConfig, parameters: int) -> StepShape:
    """Returns the step of the phase that needs the most memory.

    Args:
        pretraining: a `Pretraining`, with its teacher if it has one.
        config: of the encoder that is built.
        parameters: how many numbers the built model has.
    """
    settings, objective, plan = pretraining.settings, pretraining.objective, pretraining.plan
    generator = objective.generator_config(config)
    teacher = _teacher_of(pretraining)

    def step(phase):
        return StepShape(
            config,
            parameters,
            phase.batch_size,
            phase.records.max_seq_length,
            _predictions(pretraining, phase.records),
            tf.distribute.get_strategy().num_replicas_in_sync,
            settings.gradient_accumulation_steps,
            settings.precision,
            settings.rematerialize,
            generator,
            averages_weights=settings.average_weights > 0,
            teacher=teacher,
        )

    return max(map(step, plan.phases), key=lambda step: estimate(step).peak)


def _predictions(pretraining, records):
    """Returns how many places of a row the loss over the vocabulary is of."""
    objective, length = pretraining.objective, records.max_seq_length
    if objective.is_decoder:
        return length - 1
    if not objective.draws_masks:
        return 0
    most = pretraining.settings.max_predictions_per_seq
    return records.max_predictions or most * length // min(pretraining.plan.lengths)


def _teacher_of(pretraining):
    teacher = pretraining.teacher
    if teacher is None:
        return None
    heads, options = teacher.config.heads_of(teacher.layer - 1), pretraining.objective.options
    matrices = count_relation_matrices(options.weights, heads, options.relation_heads or heads)
    return TeacherShape(teacher.config, teacher.parameters, matrices)


# === Options ===
# From flags to plain values: what the packages below are given.


# Flags that mean something with one objective alone.
_OWN_FLAGS = {
    "electra": ("generator_size",),
    "distillation": (
        "teacher", "distillation_losses", "distillation_temperature", "teacher_layer", "relation_heads",
    ),
}  # fmt: skip
_MASK_FLAGS = ("masking", "masked_lm_prob", "phrase_file", "mask_token_prob", "random_token_prob")


def make_objective(settings: Settings) -> Objective:
    """Returns the objective that the flags describe.

    Raises:
        ValueError: a flag was given that means something with another one alone, or is wrong.
    """
    name, given = settings.objective, settings.given
    for other, flags in _OWN_FLAGS.items():
        if alone := given & (set(flags) - set(_OWN_FLAGS.get(name, ()))):
            raise ValueError(
                f"`{min(alone)}` requires `objective={other}`; got `objective={name}`. Choose that objective or "
                f"remove `{min(alone)}`."
            )
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


def make_masking(settings: Settings) -> Masking:
    """Returns how records without masks are masked as they are read, those of the shortest phase."""
    return Masking(
        settings.masking,
        settings.masked_lm_prob,
        settings.max_predictions_per_seq,
        settings.mask_token_prob,
        settings.random_token_prob,
    )


def _masks(settings, objective, tokenizer, several, shortest):
    """Returns what `masks_for` gives; None if the objective masks nothing, or if all records are masked already.

    Raises:
        ValueError: a flag says how to mask records that are masked already.
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
            f"{several[0].paths[0]}. Create them with create_pretraining_data and `dynamic_masking`."
        )
    if settings.phases and "max_predictions_per_seq" in settings.given:
        raise ValueError(
            "`phases` and `max_predictions_per_seq` cannot be combined for records that are masked already, because "
            "the records of each phase have their own number. Remove `max_predictions_per_seq`."
        )
    return None


def plan_records(settings: Settings) -> Phases:
    """Returns what a run reads; without --phases, one kind of rows all along.

    Raises:
        ValueError: the record files are not there, or not as the flags say.
    """
    if settings.do_train and not settings.input_file or not (settings.input_file or settings.eval_file):
        raise ValueError(
            "No records: `do_train` requires `input_file`, and `do_eval` requires `eval_file` or `input_file`. Create "
            "records with create_pretraining_data."
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


def check_start(settings: Settings):
    """Raises ValueError where a model that is not new would begin with other embeddings than its own."""
    for name in ("start_embeddings", "start_positions"):
        value = getattr(settings, name)
        if value != "random" and settings.init_checkpoint:
            raise ValueError(
                f"`{name}={value}` cannot be combined with `init_checkpoint`, whose embeddings are trained already. "
                "Remove one."
            )


# === Pretraining ===


_GENERATOR = "generator"  # in the output directory: the model that was trained beside the other


def complete(settings: Settings) -> Settings:
    """Returns the settings with what the recipe, the objective and a trained run say where the user did not.

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
    own = _OWN_FLAGS.get(settings.objective, ())
    if settings.do_train or settings.given & set(own):
        return settings
    for path in filter(None, model_paths(settings)):
        said = recorded_settings(directory_of(path))
        if said and said.get("objective") == settings.objective:
            values = {name: said[name] for name in own if said.get(name) is not None}
            logging.info("Using the settings of the run in %s: %s", path, " ".join(command_line(values)))
            return settings.adopt(values)
    return settings


@dataclasses.dataclass
class Pretraining:
    """Records, model and objective of a pretraining run.

    Attributes:
        settings: the flags, complete.
        objective: what is learned.
        plan: which records are read when.
        held_out: records to score on.
        model: what it starts from.
        teacher: of an objective that has one, else None; see `load_teacher`.
    """

    settings: Settings
    objective: Objective
    plan: Phases
    held_out: Records
    model: Description
    teacher: object = None

    @classmethod
    def of(cls, settings: Settings) -> "Pretraining":
        """Finds records and model.

        Raises:
            ValueError: they are not there, or do not fit each other or the objective.
        """
        check_tracking(settings.tracking)
        objective, plan = make_objective(settings), plan_records(settings)
        objective.check_records(plan.all_records if settings.do_train else [])
        held_out = Records.of(settings.eval_file) if settings.eval_file else plan.records
        check_sentences([plan.records, held_out])
        model = _model(settings, objective, [*plan.all_records, held_out])
        sizes = min(model.config.vocab_size, model.tokenizer.vocab_size), model.config.type_vocab_size
        return cls(settings, objective, plan.for_model(*sizes), held_out.for_model(*sizes), model)

    def load_teacher(self):
        """Loads the teacher of an objective that has one; in the scope of the strategy, as all that follows."""
        longest = max(*self.plan.lengths, self.held_out.max_seq_length)
        self.teacher = self.objective.load_teacher(self.model, longest)

    def task(self):
        """Returns what is trained."""
        records, can_learn = self.plan.records, self.objective.sentence_objectives
        sentences = records.sentence_objective or can_learn[0]
        sentences = sentences if sentences in can_learn else "none"
        config, rematerialize = self._trained_config(), self.settings.rematerialize
        return self.objective.make_task(config, sentences, records.packed, rematerialize, self.teacher)

    def streams(self):
        """Returns the function that gives the batches to train on, and the one that gives those to score on."""
        settings, objective, plan, held_out = self.settings, self.objective, self.plan, self.held_out
        several = [*plan.all_records, held_out]
        masks = _masks(settings, objective, self.model.tokenizer, several, min(plan.lengths))
        transform = objective.transform_batch
        with_targets = tf.function(transform, autograph=False) if transform else lambda batch: batch

        def whole(batches, seed, start=0):
            for number, batch in enumerate(map(with_targets, batches), start):
                yield batch | objective.draw(batch, seed, number)

        def batches(start, rollbacks=0):
            seed = order_seed(settings.seed, rollbacks)
            return whole(plan.batches(seed, start, masks), seed, start)

        def scored():
            draw = masks(held_out, settings.seed) if masks else None
            batches = held_out.in_order(settings.eval_batch_size, settings.max_eval_steps, draw, plan.records.packed)
            return whole(batches, settings.seed)

        return batches, scored

    def run_config(self, use_xla: bool) -> RunConfig:
        """Returns how it is trained.

        Raises:
            ValueError: the batch of a phase, or of evaluation, cannot be divided evenly.
        """
        settings, plan = self.settings, self.plan
        for phase in plan.phases:
            name = "The batch size of every phase" if settings.phases else "--train_batch_size"
            check_batch_size(phase.batch_size, settings.gradient_accumulation_steps, name)
        if settings.do_eval or settings.eval_file:
            check_batch_size(settings.eval_batch_size, 1, "--eval_batch_size")
        if settings.do_train and settings.num_warmup_steps >= plan.num_train_steps:
            logging.warning(
                "--num_warmup_steps=%d: the learning rate rises for all %d steps and never reaches --learning_rate.",
                *(settings.num_warmup_steps, plan.num_train_steps),
            )
        run = make_run_config(settings, plan.num_train_steps, settings.num_warmup_steps, use_xla, self._identity())
        check_start(settings)
        guard, rollback = (GuardConfig(), Rollback()) if settings.skip_bad_steps else (None, None)
        fixed = settings.use_xla != "false"  # what is made for one shape, models/layers.py compiles with XLA
        step = dataclasses.replace(run.step, fixed_shapes=fixed, guard=guard)
        of_weights = {
            "average_weights": settings.average_weights,
            "layer_rates": word_rate(
                settings.embedding_lr_factor, not settings.init_checkpoint and settings.start_embeddings == "random"
            ),
            "first_weights": start_weights(
                settings.start_embeddings, settings.start_positions, plan.phases[0].records, self.model, settings.seed
            ),
        }
        return dataclasses.replace(run, step=step, rollback=rollback, **of_weights)

    def history(self, run: RunConfig) -> History:
        """Returns the run's history, which writes its record too."""
        files = {"train": self.plan.paths, "held_out": self.held_out.paths}
        settings, model = self.settings, self.model
        flags = settings.to_dict(), settings.given
        record = RunRecord("pretraining", *flags, model.config, model.tokenizer, files, run.identity())
        return make_history(settings.tracking, settings.output_dir, settings.given_values(), record=record)

    def begin(self, built):
        """Makes the output directory, once the model is built and nothing prevents training it."""
        settings, model = self.settings, self._written()
        check_formats(settings, model, built)
        warn_if_too_large(largest_step(self, model.config, built.count_params()), available_memory())
        prepare_directory(settings.output_dir, overwrite=settings.overwrite_output_dir, others=(_GENERATOR,))
        save_description(settings.output_dir, model.config, model.tokenizer)

    def save_generator(self):
        """Writes the generator that was trained with the model, if one was, as a model of its own."""
        directory = self.settings.output_dir
        if config := self.objective.generator_config(self.model.config):
            written = self.objective.written_config(config)
            by_chief(save_generator, directory, os.path.join(directory, _GENERATOR), written)

    def _trained_config(self):
        """Returns the configuration to train by; what is kept with the model has its own dropout, for fine-tuning."""
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        config, rate = self.model.config, self.settings.dropout_prob
        return config if rate is None else dataclasses.replace(config, **dict.fromkeys(names, rate))

    def _written(self):
        """Returns the `Description` of what training leaves."""
        return dataclasses.replace(self.model, config=self.objective.written_config(self.model.config))

    def _identity(self):
        """Returns what decides the result besides what `make_run_config` knows of."""
        settings, plan, tokenizer = self.settings, self.plan, self.model.tokenizer
        identity = {"objective": settings.objective, "input_file": {path: os.path.getsize(path) for path in plan.paths}}
        identity |= {"phases": settings.phases} if settings.phases else {}
        identity |= {name: getattr(settings, name) for name in ("start_embeddings", "start_positions")}
        if self._trained_config() != self.model.config:
            identity["dropout_prob"] = settings.dropout_prob
        identity |= self.objective.identity(self.model.config) | self._written().config.to_dict()
        # The vocabulary's hash is short enough for a message.
        identity["vocabulary"] = (
            f"{tokenizer.vocab_size} tokens, SHA-256 {vocabulary_fingerprint(tokenizer.vocab)[:16]}"
        )
        if not all(records.masked for records in plan.all_records):
            identity |= masks_identity(make_masking(settings), settings.phrase_file)
        return identity | ({"teacher": self.teacher.digest} if self.teacher else {})


def _model(settings, objective, several):
    """Returns the `Description` of what is pretrained; all `Records` of the run must fit it."""
    model, is_decoder = describe_model(with_vocabulary_of(settings, several)), objective.is_decoder
    if model.config.is_decoder and not is_decoder:
        raise ValueError(
            "`objective` must be left_to_right for a causal model (is_decoder in its configuration); got "
            f"{settings.objective}. Pass `objective=left_to_right`, or start from another model."
        )
    model.config = dataclasses.replace(model.config, is_decoder=is_decoder)
    model.check_length(max(records.max_seq_length for records in several))
    record_compatibility.check_compatibility(several, model.tokenizer, objective.sentence_objectives)
    return model
