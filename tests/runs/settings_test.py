"""Settings of runs: what each requires, and that what they require is there."""

import pytest

from bert_tf.runs.settings import PretrainingSettings, fine_tuning_settings
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.embedding.task import EmbeddingTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.registry import TASKS
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.utils.settings import Settings, check_combinations, flags_of

CLASSIFIER, TAGGER, SQUAD, EMBEDDER = (
    task_flags(kind) for kind in (ClassificationTask, TaggingTask, QuestionAnsweringTask, EmbeddingTask)
)
PRETRAINING = flags_of(PretrainingSettings)


def _check(flags, **given):
    check_combinations(flags, Settings({flag.name: flag.default for flag in flags} | given, given))


@pytest.mark.parametrize(
    ("flags", "given", "message"),
    [
        (CLASSIFIER, {"freeze_layers": "all"}, "`freeze_layers` requires `do_train`. Add `do_train`, or remove"),
        (CLASSIFIER, {"layerwise_lr_decay": 0.9}, "`layerwise_lr_decay` requires `do_train`"),
        (CLASSIFIER, {"unfreeze_epochs": 1.0}, "`unfreeze_epochs` requires `do_train`"),
        (CLASSIFIER, {"reinit_layers": 1}, "`reinit_layers` requires `do_train`"),
        (CLASSIFIER, {"overwrite_output_dir": True}, "`overwrite_output_dir` requires `do_train`"),
        (CLASSIFIER, {"teacher": "big"}, "`teacher` requires `do_train`"),
        (CLASSIFIER, {"distillation_weight": 0.5}, "`distillation_weight` requires `teacher`"),
        (CLASSIFIER, {"early_stopping": 2, "do_train": True}, "`early_stopping` requires `metric_for_best_model`"),
        (CLASSIFIER, {"lora_alpha": 8.0, "do_train": True}, "`lora_alpha` requires `lora_rank`"),
        (CLASSIFIER, {"lora_targets": ["query", "value"]}, "`lora_targets` requires `lora_rank`"),
        (CLASSIFIER, {"rename_labels": ["a:b"]}, "`rename_labels` requires `do_train`"),
        (CLASSIFIER, {"test_file": "a"}, "`test_file` requires `do_eval`"),
        (CLASSIFIER, {"sort_predictions": "errors"}, "`sort_predictions` requires `do_eval`"),
        (CLASSIFIER, {"bucket_by_length": False, "bucket_batches": 4}, "`bucket_batches` requires `bucket_by_length`"),
        (CLASSIFIER, {"export_threads": 2}, "`export_threads` requires `export_for=cpu`; got `export_for=portable`."),
        (CLASSIFIER, {"int8_tolerance": 0.01, "export_dtype": "int8"}, "`int8_tolerance` requires `do_eval`"),
        (CLASSIFIER, {"calibration_file": "a"}, "`calibration_file` requires `export_dtype=int8`; got"),
        (TAGGER, {"feature_layers": "last"}, "`feature_layers` requires `do_train`"),
        (SQUAD, {"null_score_diff_threshold": 0.0}, "`null_score_diff_threshold` requires `version_2_with_negative`"),
        (PRETRAINING, {"generator_size": 0.25}, "`generator_size` requires `objective=electra`; got `objective=masked"),
        (PRETRAINING, {"teacher": "big"}, "`teacher` requires `objective=distillation`"),
    ],
)
def test_a_setting_without_what_it_requires_is_refused(flags, given, message):
    with pytest.raises(ValueError) as error:
        _check(flags, **given)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("flags", "given", "pair"),
    [
        (CLASSIFIER, {"unfreeze_epochs": 1.0, "learning_rate": "auto"}, "`unfreeze_epochs` and `learning_rate=auto`"),
        (CLASSIFIER, {"lora_rank": 2, "reinit_layers": 1}, "`lora_rank` and `reinit_layers`"),
        (CLASSIFIER, {"lora_rank": 2, "freeze_layers": "all"}, "`lora_rank` and `freeze_layers=all`"),
        (CLASSIFIER, {"lstm_units": 4, "lora_rank": 2}, "`lstm_units` and `lora_rank`"),
        (CLASSIFIER, {"task_name": "mrpc", "train_file": "a"}, "`task_name` and `train_file`"),
        (CLASSIFIER, {"task_name": "mrpc", "test_file": "a", "do_eval": True}, "`task_name` and `test_file`"),
        (CLASSIFIER, {"task_name": "mrpc", "separator": ";"}, "`task_name` and `separator`"),
        (CLASSIFIER, {"task_name": "mrpc", "drop_empty": True}, "`task_name` and `drop_empty`"),
        (CLASSIFIER, {"label_columns": ["a"], "label_column": "label"}, "`label_columns` and `label_column`"),
        (EMBEDDER, {"task_name": "sts-b", "eval_file": "a"}, "`task_name` and `eval_file`"),
        (EMBEDDER, {"task_name": "sts-b", "encoding": "cp1252"}, "`task_name` and `encoding`"),
        *((TAGGER, {"feature_layers": "last", name: value}, f"`feature_layers` and `{name}`")
          for name, value in (("lora_rank", 2), ("freeze_layers", "1"), ("layerwise_lr_decay", 0.9),
                              ("unfreeze_epochs", 1.0), ("reinit_layers", 1), ("gradient_checkpointing", True))),
        (PRETRAINING, {"init_checkpoint": "a", "start_embeddings": "neighbors"},
         "`init_checkpoint` and `start_embeddings=neighbors`"),
        (PRETRAINING, {"init_checkpoint": "a", "start_positions": "sinusoidal"},
         "`init_checkpoint` and `start_positions=sinusoidal`"),
    ],
)  # fmt: skip
def test_settings_that_exclude_each_other_are_refused(flags, given, pair):
    with pytest.raises(ValueError, match=f"{pair} cannot be combined. Remove one."):
        _check(flags, do_train=True, **given)


def test_what_is_off_or_complete_is_not_refused():
    _check(CLASSIFIER)
    _check(CLASSIFIER, early_stopping=0, overwrite_output_dir=False, metric_for_best_model=None, freeze_layers="0")
    _check(
        CLASSIFIER,
        do_train=True, metric_for_best_model="f1", early_stopping=2, lora_rank=4, lora_alpha=8.0, teacher="big",
    )  # fmt: skip
    _check(PRETRAINING, objective="electra", generator_size=0.5)


@pytest.mark.parametrize("flags", [*(task_flags(kind) for kind in TASKS), PRETRAINING])
def test_what_is_required_or_excluded_is_a_setting_too(flags):
    table = {flag.name: flag for flag in flags}
    for name, _, value in (other.partition("=") for flag in flags for other in (*flag.requires, *flag.excludes)):
        values = (*table[name].choices, *table[name].words)
        assert not value or not values or value in values


def test_the_settings_of_a_task_are_its_options_and_those_of_all_tasks():
    settings = fine_tuning_settings(type(QuestionAnsweringTask.options))
    assert settings.__name__ == "FineTuningSquadOptions" and settings().max_seq_length == 384
    assert issubclass(settings, type(QuestionAnsweringTask.options))


# Settings that do not affect the result of a run, not even its scores, by reason. All others are `decides_result`.
AFFECT_NOTHING = {
    "what is done with the model": "do_train do_eval do_predict do_export dry_run strict_data predict_file",
    "where files are, and which are written": (
        "output_dir overwrite_output_dir save_checkpoints_steps keep_checkpoints keep_optimizer save_format "
        "sort_predictions verbose_logging tracking compilation_cache_dir"
    ),
    "the export of the result": (
        "export_dir export_dtype export_for export_threads export_explanations calibration_file int8_tolerance"
    ),
    "how it is computed, which changes no more than rounding and, with XLA, the bits that dropout draws": (
        "distribution_strategy worker_hosts task_index use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores "
        "iterations_per_loop use_xla deterministic gradient_checkpointing eval_batch_size predict_batch_size"
    ),
    "pretraining alone: sets other settings": "recipe",
    "pretraining alone: kept with the model for others, because records are tokenized already": "do_lower_case",
}


@pytest.mark.parametrize("flags", [*(task_flags(kind) for kind in TASKS), PRETRAINING])
def test_every_setting_either_decides_the_result_or_is_known_not_to(flags):
    decides_nothing = {flag.name for flag in flags if not flag.decides_result}
    known = {name for reason, names in AFFECT_NOTHING.items() for name in names.split()
             if flags is PRETRAINING or "pretraining alone" not in reason}  # fmt: skip
    others = {"eval_batch_size", "use_xla"} if flags is PRETRAINING else set()  # these do affect it there
    assert decides_nothing == (known - others) & {flag.name for flag in flags}
