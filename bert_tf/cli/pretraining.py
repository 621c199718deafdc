"""One run of pretraining: what is read, what is trained on it, and what it leaves. `run_pretraining` is the program."""

import dataclasses
import itertools
import os

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.loading import Description, directory_of, save_description
from bert_tf.cli.checkpoints import check_formats, describe_model, model_paths, with_vocabulary_of
from bert_tf.cli.recipes import with_recipe
from bert_tf.export.conversion.convert import save_generator
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.objectives.distillation import encoder_teacher, losses_of, matrices_of
from bert_tf.pretraining.objectives.registry import OBJECTIVES, Objective, objective_of
from bert_tf.pretraining.records import fit, phases
from bert_tf.pretraining.records.batches import Records
from bert_tf.pretraining.records.masking import masks_for, masks_identity
from bert_tf.pretraining.records.origin import fingerprint
from bert_tf.training.cluster import by_chief
from bert_tf.training.fine_tuning import make_run_config
from bert_tf.training.guard import GuardConfig, Rollback, order_seed
from bert_tf.training.history import History
from bert_tf.training.learning_rate import WORDS, WordRate
from bert_tf.training.loop import RunConfig
from bert_tf.training.memory import StepShape, TeacherShape, available_memory, estimate, warn_if_too_large
from bert_tf.training.run_record import RunRecord, settings_of
from bert_tf.training.step import check_batch_size
from bert_tf.training.tracking import check_tracking, make_history
from bert_tf.training.trainer import prepare
from bert_tf.utils.settings import Settings, command_line

# === Largest step ===
# Which step of a pretraining needs the most memory: what `--dry_run` tells, and the warning before the first step.


def largest_step(pretraining, config: EncoderConfig, parameters: int) -> StepShape:
    """Returns the step of the phase that needs the most memory.

    Args:
        pretraining: a `programs.pretraining.Pretraining`, with its teacher if it has one.
        config: of the encoder that is built.
        parameters: how many numbers the built model has.
    """
    settings, objective, plan = pretraining.settings, pretraining.objective, pretraining.plan
    generator = objective.generator_of(config, settings) if objective.generator_of else None
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
    teacher, settings = pretraining.teacher, pretraining.settings
    if teacher is None:
        return None
    heads = teacher.config.heads_of(teacher.layer - 1)
    matrices = matrices_of(losses_of(settings.distillation_losses), heads, settings.relation_heads or heads)
    return TeacherShape(teacher.config, teacher.parameters, matrices)


# === Start embeddings ===
# Initial embeddings of a new model, where they are not random: of words, vectors from the records'
# neighbours; of positions, sines and cosines.


_MOST = 20_000_000  # places of rows that are looked at: some 80 MB of ids, a minute of one core
_ROWS = 8  # at a time; a rest is left out
_POSITIONS = "bert/embeddings/position_embeddings"
_BIASES = ("cls/predictions/output_bias", "generator/cls/predictions/output_bias")
_LONGEST_WAVE = 10_000.0  # positions for a radian of the slowest wave (Vaswani et al. 2017, section 3.5)


def check(settings):
    """Raises ValueError where a model that is not new would begin so."""
    for name in ("start_embeddings", "start_positions"):
        value = getattr(settings, name)
        if value != "random" and settings.init_checkpoint:
            raise ValueError(
                f"`{name}={value}` must come without `init_checkpoint`, whose embeddings mean something already. "
                "Received both; leave one of them out."
            )


def word_rate(settings) -> WordRate | None:
    """Returns how fast the word embeddings move; None: as all else.

    Raises:
        ValueError: they would stay what they are, but are random.
    """
    factor = settings.embedding_lr_factor
    if not factor and not settings.init_checkpoint and settings.start_embeddings == "random":
        raise ValueError(
            "`embedding_lr_factor=0` must come with `start_embeddings=neighbours` or with `init_checkpoint`. Received "
            "neither, so that the word embeddings would stay random."
        )
    return None if factor == 1 else WordRate(factor)


def first_weights(settings, records, model):
    """Returns the function that gives {variable path: array} to begin with in place of random weights; None: none.

    Args:
        settings: with `start_embeddings`, `start_positions`, `init_checkpoint` and `seed`.
        records: the `Records` to train on.
        model: the `model_files.Description` of what is pretrained.

    Raises:
        ValueError: as `check`.
    """
    check(settings)
    makers = []
    if settings.start_embeddings != "random":
        makers.append(lambda: _of_neighbours(records, model, settings.seed))
    if settings.start_positions != "random":
        makers.append(lambda: {_POSITIONS: sinusoids(model.config)})
    return (lambda: {path: array for make in makers for path, array in make().items()}) if makers else None


def sinusoids(config):
    """Returns sines, then cosines, of positions: float32 [P, E], as large as the random ones.

    From two places of a row a linear map can tell how far apart they are, so that a layer need not learn first which
    positions are neighbours.
    """
    import numpy as np

    half = (config.embedding_width + 1) // 2
    waves = _LONGEST_WAVE ** -(np.arange(half) / half)
    angles = np.arange(config.max_position_embeddings)[:, np.newaxis] * waves
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, : config.embedding_width]
    return (table * np.sqrt(2) * config.initializer_range).astype(np.float32)


def _of_neighbours(records, model, seed):
    """Returns {path: array}: word embeddings, and the masked-LM head's bias, the logarithm of how common pieces are."""
    import numpy as np

    from bert_tf.tokenization.neighbours import Neighbours, frequent_of

    config, names = model.config, set(model.tokenizer.special_tokens.values())
    special = [number for number, piece in enumerate(model.tokenizer.vocab) if piece in names]
    rows = np.concatenate(_rows(records))
    counts = np.bincount(rows.reshape(-1), minlength=config.vocab_size)
    counts[special] = 0
    neighbours = Neighbours(config.vocab_size, frequent_of(counts, special))
    for part in np.array_split(rows, max(1, rows.size // 1_000_000)):
        neighbours.add(part)
    found = neighbours.vectors(config.embedding_width, seed)
    known = (np.abs(found).sum(1) > 0) & (np.bincount(special, minlength=config.vocab_size) == 0)
    logging.info("%d of %d word embeddings start from their neighbours in %d places of the records.",
                 known.sum(), config.vocab_size, rows.size)  # fmt: skip
    random = np.random.default_rng(seed).normal(size=found.shape).astype(np.float32)
    bias = np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)
    words = np.where(known[:, np.newaxis], found, random) * np.float32(config.initializer_range)
    return {WORDS: words} | dict.fromkeys(_BIASES, bias)


def _rows(records):
    """Returns the rows' ids, int32 [_ROWS, S] each, of one length: as many as are looked at."""
    most = _MOST // (_ROWS * records.max_seq_length)
    rows = [batch["input_ids"].numpy() for batch in itertools.islice(records.in_order(_ROWS), most)]
    if not rows:
        raise ValueError(
            f"`start_embeddings=neighbours` must come with {_ROWS} rows at least. Received fewer in "
            f"{', '.join(records.paths[:3])}; give more text."
        )
    return rows


# === Pretraining ===


_GENERATOR = "generator"  # in the output directory: the model that was trained beside the other


def complete(settings: Settings) -> Settings:
    """Returns the settings with what the recipe, the objective and a trained run say where the user did not.

    Raises:
        ValueError: a setting was given that means something with another objective alone.
    """
    settings = _as_trained(with_recipe(settings))
    return settings.adopt({"masking": objective_of(settings).masking})


def _as_trained(settings):
    """Returns the settings, where nothing is trained, with what the model's own run says of its objective.

    A generator has the shape that it was given there, and nothing else can be filled with its weights. Where the user
    says something of the objective, what the run says is left aside.
    """
    own = OBJECTIVES[settings.objective].settings
    if settings.do_train or settings.given & set(own):
        return settings
    for path in filter(None, model_paths(settings)):
        said = settings_of(directory_of(path))
        if said and said.get("objective") == settings.objective:
            values = {name: said[name] for name in own if said.get(name) is not None}
            logging.info("As in the run of %s: %s", path, " ".join(command_line(values)))
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
    plan: phases.Phases
    held_out: Records
    model: Description
    teacher: object = None

    @classmethod
    def of(cls, settings: Settings) -> "Pretraining":
        """Finds records and model.

        Raises:
            ValueError: they are not there, or do not fit each other or the objective.
        """
        check_tracking(settings)
        objective, plan = objective_of(settings), phases.plan_of(settings)
        objective.check_records(settings.objective, plan.all_records if settings.do_train else [])
        held_out = phases.held_out_of(settings, plan)
        model = _model(settings, objective, [*plan.all_records, held_out])
        sizes = min(model.config.vocab_size, model.tokenizer.vocab_size), model.config.type_vocab_size
        return cls(settings, objective, plan.for_model(*sizes), held_out.for_model(*sizes), model)

    def load_teacher(self):
        """Loads the teacher of an objective that has one; in the scope of the strategy, as all that follows."""
        if self.objective.is_taught:
            longest = max(*self.plan.lengths, self.held_out.max_seq_length)
            self.teacher = encoder_teacher(self.settings, self.model, longest)

    def task(self):
        """Returns what is trained."""
        records, can_learn = self.plan.records, self.objective.sentence_objectives
        sentences = records.sentence_objective or can_learn[0]
        sentences = sentences if sentences in can_learn else "none"
        taught = {"teacher": self.teacher} if self.teacher else {}
        return self.objective.make_task(self._trained_config(), sentences, records.packed, self.settings, **taught)

    def streams(self):
        """Returns the function that gives the batches to train on, and the one that gives those to score on."""
        settings, objective, plan, held_out = self.settings, self.objective, self.plan, self.held_out
        several = [*plan.all_records, held_out]
        masks = masks_for(settings, self.model.tokenizer, several) if objective.draws_masks else None
        with_targets = tf.function(objective.of_batch) if objective.of_batch else lambda batch: batch

        def whole(batches, seed, start=0):
            for number, batch in enumerate(map(with_targets, batches), start):
                yield batch | objective.draws(batch, seed, number)

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
            ValueError: the batch of a phase cannot be divided evenly.
        """
        settings, plan = self.settings, self.plan
        for phase in plan.phases:
            name = "The batch size of every phase" if settings.phases else "--train_batch_size"
            check_batch_size(phase.batch_size, settings.gradient_accumulation_steps, name)
        if settings.do_train and settings.num_warmup_steps >= plan.num_train_steps:
            logging.warning(
                "--num_warmup_steps=%d: the rate rises through all %d steps, and never reaches --learning_rate.",
                *(settings.num_warmup_steps, plan.num_train_steps),
            )
        run = make_run_config(settings, plan.num_train_steps, settings.num_warmup_steps, use_xla, self._identity())
        guard, rollback = (GuardConfig(), Rollback()) if settings.skip_bad_steps else (None, None)
        fixed = settings.use_xla != "false"  # what is made for one shape, numerics.py compiles with XLA
        step = dataclasses.replace(run.step, fixed_shapes=fixed, guard=guard)
        of_weights = {
            "average_weights": settings.average_weights,
            "layer_rates": word_rate(settings),
            "first_weights": first_weights(settings, plan.phases[0].records, self.model),
        }
        return dataclasses.replace(run, step=step, rollback=rollback, **of_weights)

    def history(self, run: RunConfig) -> History:
        """Returns the run's history, which writes its record too."""
        files = {"train": self.plan.paths, "held_out": self.held_out.paths}
        model = self.model
        record = RunRecord("pretraining", self.settings, model.config, model.tokenizer, files, run.identity())
        return make_history(self.settings, record=record)

    def begin(self, built):
        """Makes the output directory, once the model is built and nothing prevents training it."""
        settings, model = self.settings, self._written()
        check_formats(settings, model, built)
        warn_if_too_large(largest_step(self, model.config, built.count_params()), available_memory())
        prepare(settings.output_dir, anew=settings.overwrite_output_dir, others=(_GENERATOR,))
        save_description(settings.output_dir, model.config, model.tokenizer)

    def save_generator(self):
        """Writes the generator that was trained with the model, if one was, as a model of its own."""
        objective, directory = self.objective, self.settings.output_dir
        if objective.generator_of:
            config = objective.config_of(objective.generator_of(self.model.config, self.settings))
            by_chief(save_generator, directory, os.path.join(directory, _GENERATOR), config)

    def _trained_config(self):
        """Returns the configuration to train by; what is kept with the model has its own dropout, for fine-tuning."""
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        config, rate = self.model.config, self.settings.dropout_prob
        return config if rate is None else dataclasses.replace(config, **dict.fromkeys(names, rate))

    def _written(self):
        """Returns the `Description` of what training leaves."""
        return dataclasses.replace(self.model, config=self.objective.config_of(self.model.config))

    def _identity(self):
        """Returns what decides the result besides what `make_run_config` knows of."""
        settings, plan, tokenizer = self.settings, self.plan, self.model.tokenizer
        identity = {"objective": settings.objective, "input_file": {path: os.path.getsize(path) for path in plan.paths}}
        identity |= {"phases": settings.phases} if settings.phases else {}
        starts = {name: settings.get(name) for name in ("start_embeddings", "start_positions")}
        identity |= {name: start for name, start in starts.items() if start != "random"}
        if self._trained_config() != self.model.config:
            identity["dropout_prob"] = settings.dropout_prob
        identity |= self.objective.identity(self.model.config, settings) | self._written().config.to_dict()
        # The vocabulary's hash is short enough for a message.
        identity["vocabulary"] = f"{tokenizer.vocab_size} pieces, SHA-256 {fingerprint(tokenizer.vocab)[:16]}"
        if not all(records.masked for records in plan.all_records):
            identity |= masks_identity(settings)
        return identity | ({"teacher": self.teacher.digest} if self.teacher else {})


def _model(settings, objective, several):
    """Returns the `Description` of what is pretrained; all `Records` of the run must fit it."""
    model, is_decoder = describe_model(with_vocabulary_of(settings, several)), objective.is_decoder
    if model.config.is_decoder and not is_decoder:
        raise ValueError(
            "`objective` must be left_to_right for a model that learned so (is_decoder in its configuration). "
            f"Received: {settings.objective}; pass `objective=left_to_right`, or start from another model."
        )
    model.config = dataclasses.replace(model.config, is_decoder=is_decoder)
    model.check_length(max(records.max_seq_length for records in several))
    fit.check(several, model.tokenizer, objective.sentence_objectives)
    return model
