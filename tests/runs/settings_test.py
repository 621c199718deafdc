"""Settings of runs: what each requires, and that what they require is there."""

import pytest

from bert_tf.runs.settings import PretrainingSettings, fine_tuning_settings
from bert_tf.runs.task_flags import task_flags
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.question_answering.task import QuestionAnsweringTask
from bert_tf.tasks.registry import TASKS
from bert_tf.tasks.tagging.task import TaggingTask
from bert_tf.utils.settings import Settings, check_combinations, flags_of

CLASSIFIER, TAGGER, SQUAD = (task_flags(kind) for kind in (ClassificationTask, TaggingTask, QuestionAnsweringTask))
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
        (TAGGER, {"features": "last"}, "`features` requires `do_train`"),
        (SQUAD, {"null_score_diff_threshold": 0.0}, "`null_score_diff_threshold` requires `version_2_with_negative`"),
        (PRETRAINING, {"generator_size": 0.25}, "`generator_size` requires `objective=electra`; got `objective=masked"),
        (PRETRAINING, {"teacher": "big"}, "`teacher` requires `objective=distillation`"),
    ],
)
def test_a_setting_without_what_it_requires_is_refused(flags, given, message):
    with pytest.raises(ValueError) as error:
        _check(flags, **given)
    assert message in str(error.value)


def test_what_is_off_or_complete_is_not_refused():
    _check(CLASSIFIER)
    _check(CLASSIFIER, early_stopping=0, overwrite_output_dir=False, metric_for_best_model=None, freeze_layers="0")
    _check(
        CLASSIFIER,
        do_train=True, metric_for_best_model="f1", early_stopping=2, lora_rank=4, lora_alpha=8.0, teacher="big",
    )  # fmt: skip
    _check(PRETRAINING, objective="electra", generator_size=0.5)


@pytest.mark.parametrize("flags", [*(task_flags(kind) for kind in TASKS), PRETRAINING])
def test_what_is_required_is_a_setting_too(flags):
    table = {flag.name: flag for flag in flags}
    for name, _, value in (required.partition("=") for flag in flags for required in flag.requires):
        assert name in table and (not value or value in table[name].choices)


def test_the_settings_of_a_task_are_its_options_and_those_of_all_tasks():
    settings = fine_tuning_settings(type(QuestionAnsweringTask.options))
    assert settings.__name__ == "FineTuningSquadOptions" and settings().max_seq_length == 384
    assert issubclass(settings, type(QuestionAnsweringTask.options))
