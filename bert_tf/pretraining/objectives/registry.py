"""The pretraining objectives by name: the records that each requires, how it creates batches, and its task."""

import dataclasses
from typing import ClassVar

from bert_tf.checkpoints.loading import ModelDescription
from bert_tf.models.config import EncoderConfig
from bert_tf.pretraining.batches import Records
from bert_tf.pretraining.objectives.distillation import DistillationTask, unmask_batch
from bert_tf.pretraining.objectives.distillation_losses import DistillationOptions, predicts_masked
from bert_tf.pretraining.objectives.distillation_teacher import load_encoder_teacher
from bert_tf.pretraining.objectives.electra_configs import make_generator_config, to_electra_config
from bert_tf.pretraining.objectives.language_modeling import PretrainingTask
from bert_tf.pretraining.objectives.left_to_right import LeftToRightTask, next_tokens
from bert_tf.pretraining.objectives.replaced_tokens import ReplacedTokensTask, add_unmasked_ids, sampling_draws
from bert_tf.tasks.teacher import Teacher
from bert_tf.tasks.trainable_task import Tensors, TrainableTask
from bert_tf.utils.names import SENTENCE_OBJECTIVES


class Objective:
    """Masked LM with the records' sentence objective (Devlin et al. 2018, section 3.1); the base of all others.

    Attributes:
        name: name of the objective, one of `names.OBJECTIVES`.
        is_decoder: whether each token attends only to itself and those before it.
        draws_masks: whether records without masks are masked when read.
        masking: default kind of masking, one of `names.MASKINGS`.
        takes_masks: whether training records may already have masks.
        sentence_objectives: those that can be combined with it. If records have sentence labels, the first one is
            learned; if it is "none", the labels are ignored.
        takes_labels: whether records may have such labels.
        transform_batch: converts a batch for masked LM to its own, in the graph, or None if no conversion is needed.
    """

    name: ClassVar[str] = "masked_lm"
    is_decoder: ClassVar[bool] = False
    masking: ClassVar[str] = "token"
    takes_masks: ClassVar[bool] = True
    sentence_objectives: ClassVar[tuple[str, ...]] = SENTENCE_OBJECTIVES
    takes_labels: ClassVar[bool] = True
    draws_masks = True
    transform_batch = None

    def make_task(
        self,
        config: EncoderConfig,
        sentence_objective: str,
        packed: bool,
        gradient_checkpointing: bool = False,
        teacher: Teacher | None = None,
    ) -> TrainableTask:
        """Creates the task to train.

        Args:
            config: configuration of the encoder.
            sentence_objective: "nsp", "sop" or "none".
            packed: whether rows contain several examples each.
            gradient_checkpointing: as in `Encoder`.
            teacher: the result of `load_teacher`.
        """
        return PretrainingTask(config, sentence_objective, packed, gradient_checkpointing)

    def draw(self, batch: Tensors, seed: int, number: int) -> Tensors:
        """Returns the random inputs of batch `number` of the run besides its masks, by name."""
        return {}

    def written_config(self, config: EncoderConfig) -> EncoderConfig:
        """Returns the configuration to write for an encoder trained with `config`."""
        return config

    def generator_config(self, config: EncoderConfig) -> EncoderConfig | None:
        """Returns the configuration of the generator that is trained as well, or None if there is none.

        Raises:
            ValueError: no generator can be configured for this encoder.
        """
        return None

    def load_teacher(self, student: ModelDescription, longest: int) -> Teacher | None:
        """Loads the teacher of `student` for rows of up to `longest` tokens, or returns None if there is none."""
        return None

    def identity(self, config: EncoderConfig) -> dict:
        """Returns further settings that determine the result, as JSON values; a resumed run must have the same."""
        return {}

    def check_records(self, several: list[Records]):
        """Raises ValueError if training records do not suit this objective."""
        for records in several:
            if fault := self._fault(records):
                must, received, remedy = fault
                raise ValueError(
                    f"Records for `objective={self.name}` must {must}; got records {received}, such as "
                    f"{records.paths[0]}; create them with `pretrain data` and {remedy}, or choose another "
                    "`objective`."
                )

    def _fault(self, records):
        """Returns the requirement that records violate, their actual state and the setting to change, or None."""
        if "none" not in self.sentence_objectives and not records.has_sentences:
            return "have sentence labels", "without them", f"`sentence_objective={self.sentence_objectives[0]}`"
        if not self.takes_labels and records.has_sentences:
            return "not have sentence labels", "with some", "`sentence_objective=none`"
        if not self.takes_masks and records.masked:
            return "not have masks, which are sampled in training", "that are masked already", "`dynamic_masking`"
        return None


class LeftToRight(Objective):
    """Left-to-right LM: predicts each token from those before it (Devlin et al. 2018, section 5.1, "LTR")."""

    name = "left_to_right"
    is_decoder = True
    draws_masks = False
    sentence_objectives = ("none",)
    transform_batch = staticmethod(next_tokens)

    def make_task(self, config, sentence_objective, packed, gradient_checkpointing=False, teacher=None):
        return LeftToRightTask(config, sentence_objective, packed, gradient_checkpointing)


class Albert(Objective):
    """ALBERT: masked n-grams and sentence order (Lan et al. 2019, sections 3.1 and 4.1)."""

    name = "albert"
    masking = "ngram"
    sentence_objectives = ("sop",)


class Roberta(Objective):
    """RoBERTa: different masks in each epoch, and no sentence objective (Liu et al. 2019, section 4)."""

    name = "roberta"
    takes_masks = False
    sentence_objectives = ("none",)
    takes_labels = False


class Ernie(Objective):
    """ERNIE: masks phrases and names from a list as units (Sun et al. 2019, section 3.2)."""

    name = "ernie"
    masking = "phrase"


class Electra(Objective):
    """ELECTRA: detects the tokens that a small generator, trained jointly, replaced (Clark et al. 2020)."""

    name = "electra"
    sentence_objectives = ("none",)
    transform_batch = staticmethod(add_unmasked_ids)

    def __init__(self, generator_size: float):
        self.generator_size = generator_size

    def make_task(self, config, sentence_objective, packed, gradient_checkpointing=False, teacher=None):
        config = dataclasses.replace(config, has_pooler=False)
        return ReplacedTokensTask(config, self.generator_config(config), packed, gradient_checkpointing)

    def draw(self, batch, seed, number):
        return sampling_draws(batch, seed, number)

    def written_config(self, config):
        return to_electra_config(config)

    def generator_config(self, config):
        return make_generator_config(config, self.generator_size)

    def identity(self, config):
        # The same result from a BERT configuration and from the written one.
        generator = to_electra_config(self.generator_config(config))
        return {"generator": generator.to_dict()}


class Distillation(Objective):
    """Distillation: a teacher's outputs on the same texts, with or without masked LM.

    Texts are not masked if no loss uses masked tokens.
    """

    name = "distillation"
    sentence_objectives = ("none",)

    def __init__(self, options: DistillationOptions):
        self.options = options
        self.draws_masks = predicts_masked(options.weights)
        self.transform_batch = None if self.draws_masks else unmask_batch

    def make_task(self, config, sentence_objective, packed, gradient_checkpointing=False, teacher=None):
        options = self.options
        return DistillationTask(
            config,
            teacher,
            options.weights,
            options.temperature,
            options.relation_heads,
            packed,
            gradient_checkpointing,
        )

    def load_teacher(self, student, longest):
        return load_encoder_teacher(self.options, student, longest)

    def identity(self, config):
        options = self.options
        return {
            "distillation_losses": list(options.losses),
            "distillation_temperature": options.temperature,
            "teacher_layer": options.layer,
            "relation_heads": options.relation_heads,
        }


OBJECTIVES = {
    objective.name: objective for objective in (Objective, LeftToRight, Electra, Albert, Roberta, Ernie, Distillation)
}
