"""One run of pretraining: records, model and objective."""

import dataclasses
import os
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf.checkpoints.loading import ModelDescription, save_description
from bert_tf.export.conversion.convert import save_generator
from bert_tf.pretraining import record_compatibility
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.dynamic_masking import masks_identity
from bert_tf.pretraining.objectives.registry import Objective
from bert_tf.pretraining.phases import Phases, check_sentences
from bert_tf.pretraining.record_metadata import vocabulary_fingerprint
from bert_tf.pretraining.start_weights import start_weights
from bert_tf.runs.pretraining_memory import largest_step
from bert_tf.runs.pretraining_options import choose_masks, make_masking, make_objective, plan_records
from bert_tf.runs.run_config import make_run_config
from bert_tf.runs.save_formats import check_formats
from bert_tf.runs.settings import PretrainingSettings
from bert_tf.runs.start_model import describe_model, with_vocabulary_of
from bert_tf.training.history import History
from bert_tf.training.loss_spike_guard import GuardConfig, Rollback, order_seed
from bert_tf.training.memory_budget import available_memory, warn_if_too_large
from bert_tf.training.output_directory import prepare_directory
from bert_tf.training.run_config import RunConfig
from bert_tf.training.run_record import RunRecord
from bert_tf.training.strategies import check_batch_size
from bert_tf.training.tracking import check_tracking, make_history
from bert_tf.training.word_rate import word_rate
from bert_tf.training.workers import by_chief

_GENERATOR = "generator"  # in the output directory: the model that was trained beside the other


@dataclasses.dataclass
class Pretraining:
    """Records, model and objective of a pretraining run.

    Attributes:
        settings: settings of the run, complete.
        objective: what is learned.
        plan: which records are read when.
        held_out: records to score on.
        model: what it starts from.
        teacher: teacher of an objective that has one, else None; see `load_teacher`.
    """

    settings: PretrainingSettings
    objective: Objective
    plan: Phases
    held_out: Records
    model: ModelDescription
    teacher: object = None

    @classmethod
    def of(cls, settings: PretrainingSettings) -> "Pretraining":
        """Finds records and model.

        Raises:
            ValueError: they are missing, or do not fit each other or the objective.
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
        config, gradient_checkpointing = self._trained_config(), self.settings.gradient_checkpointing
        return self.objective.make_task(config, sentences, records.packed, gradient_checkpointing, self.teacher)

    def streams(self):
        """Returns the function that gives the batches to train on, and the one that gives those to score on."""
        settings, objective, plan, held_out = self.settings, self.objective, self.plan, self.held_out
        several = [*plan.all_records, held_out]
        masks = choose_masks(settings, objective, self.model.tokenizer, several, min(plan.lengths))
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
            name = "The batch size of every phase" if settings.phases else "`train_batch_size`"
            check_batch_size(phase.batch_size, settings.gradient_accumulation_steps, name)
        if settings.do_eval or settings.eval_file:
            check_batch_size(settings.eval_batch_size, 1, "`eval_batch_size`")
        if settings.do_train and settings.num_warmup_steps >= plan.num_train_steps:
            logging.warning(
                "`num_warmup_steps=%d`: the learning rate rises for all %d steps and never reaches `learning_rate`.",
                *(settings.num_warmup_steps, plan.num_train_steps),
            )
        steps = plan.num_train_steps, settings.num_warmup_steps
        run = make_run_config(settings, *steps, use_xla, self._identity(), settings.optimizer)
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
        """Writes the generator that was trained with the model, if one was, as a separate model."""
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
        """Returns the `ModelDescription` of what training leaves."""
        return dataclasses.replace(self.model, config=self.objective.written_config(self.model.config))

    def _identity(self):
        """Returns what decides the result, apart from the settings that are declared to."""
        settings, plan, tokenizer = self.settings, self.plan, self.model.tokenizer
        identity: dict[str, Any] = {"input_file": {path: os.path.getsize(path) for path in plan.paths}}
        identity |= {"phases": settings.phases} if settings.phases else {}
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
    """Returns the `ModelDescription` of what is pretrained; all `Records` of the run must fit it."""
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
