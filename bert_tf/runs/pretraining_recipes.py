"""Recipes of pretraining: values of settings, for those that the user does not give."""

from typing import TYPE_CHECKING

from absl import logging

if TYPE_CHECKING:
    from bert_tf.runs.settings import PretrainingSettings  # which names these recipes

# Of `pretrain run --recipe`.
RECIPES = {
    # Devlin et al. 2018 (arXiv 1810.04805), appendix A.2, and google-research/bert's create_pretraining_data.
    "bert_paper": {
        "phases": "128x90%,512x10%",
        "train_batch_size": 256,
        "num_train_steps": 1_000_000,
        "num_warmup_steps": 10_000,
        "optimizer": "adamw",
        "learning_rate": 1e-4,
        "schedule": "linear",
        "weight_decay_rate": 0.01,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-6,
        "clip_norm": 1.0,
        "bias_correction": False,
        "dropout_prob": 0.1,
        "objective": "masked_lm",
        "masking": "token",
        "masked_lm_prob": 0.15,
        "max_predictions_per_seq": 20,
    },
    # Liu et al. 2019 (arXiv 1907.11692), table 9, RoBERTa-base; records with --sentence_objective=none, and with
    # --dynamic_masking.
    "roberta_paper": {
        "max_seq_length": 512,
        "train_batch_size": 8192,
        "num_train_steps": 500_000,
        "num_warmup_steps": 24_000,
        "optimizer": "adamw",
        "learning_rate": 6e-4,
        "schedule": "linear",
        "weight_decay_rate": 0.01,
        "adam_beta1": 0.9,
        "adam_beta2": 0.98,
        "adam_epsilon": 1e-6,
        "clip_norm": 0.0,
        "bias_correction": True,
        "dropout_prob": 0.1,
        "objective": "masked_lm",
        "masking": "token",
        "masked_lm_prob": 0.15,
        "max_predictions_per_seq": 77,
    },
}

# Of `bert-tf pretrain quick`; `SizeRecipe` says what each name means. A phase is (tokens of a sequence,
# share of the steps, sequences of a step).
SMALL = {
    "phases": ((32, 0.6, 64), (64, 0.4, 64)),
    "warmup_steps": 150,
    "config": {
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "max_position_embeddings": 512,
        "norm_first": True,
        "classifier_pooling": "mean",
    },
    "records": {"sentence_objective": "none", "packing": True, "dynamic_masking": True, "dupe_factor": 1},
    "pretraining": {
        "objective": "masked_lm",
        "learning_rate": 1e-3,
        "schedule": "trapezoid",
        "dropout_prob": 0.0,
        "masked_lm_prob": 0.3,
        "start_embeddings": "neighbors",
        "start_positions": "sinusoidal",
        "embedding_lr_factor": 0.0,
        "average_weights": 0.1,
    },
}

# The same with --teacher: a student that begins as four of the teacher's layers.
SMALL_TAUGHT = {
    "phases": ((64, 1.0, 32),),
    "warmup_steps": 150,
    "layers": 4,
    "records": SMALL["records"],
    "pretraining": {
        "objective": "distillation",
        "distillation_losses": ["query_relations", "key_relations", "value_relations", "hidden"],
        "learning_rate": 2e-4,
        "schedule": "trapezoid",
    },
}


def with_recipe(settings: "PretrainingSettings") -> "PretrainingSettings":
    """Returns the settings with the values of `recipe`, if any, for those that the user did not give; logs both."""
    if not settings.recipe:
        return settings
    values = dict(RECIPES[settings.recipe])
    if "max_seq_length" in settings.given:  # one length all along
        values.pop("phases", None)
    logging.info("`recipe=%s`: %s", settings.recipe, _shown(values.keys() - settings.given, values))
    given = {name: getattr(settings, name) for name in values if name in settings.given}
    if changed := [name for name in given if given[name] != values[name]]:
        logging.info("Given settings that differ from `recipe=%s`: %s", settings.recipe, _shown(changed, given))
    return settings.adopt(values)


def _shown(names, values):
    return " ".join(f"`{name}={values[name]}`" for name in sorted(names))
