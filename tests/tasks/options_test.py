"""Options: each is a flag of its program with the same default, and a misspelled one cannot be made."""

import dataclasses

import pytest

from bert_tf.tasks.classification.options import ClassificationOptions
from bert_tf.tasks.options import RunOptions, TeacherOptions
from bert_tf.tasks.registry import TASKS
from bert_tf.utils.settings import Settings, options_of
from tests.tasks.support import PROGRAMS, options


@pytest.mark.parametrize("kind", PROGRAMS)
def test_each_option_is_a_flag_of_the_program_and_has_its_default(kind):
    assert options(kind) == kind()
    if "teacher" in {flag.name for flag in PROGRAMS[kind].FLAGS}:
        defaults = {flag.name: flag.default for flag in PROGRAMS[kind].FLAGS}
        same_length = dataclasses.replace(TeacherOptions(), max_seq_length=defaults["max_seq_length"])
        assert options_of(TeacherOptions, Settings(defaults)) == same_length


def test_each_task_has_options_of_its_own():
    assert {type(task.options) for task in TASKS} == set(PROGRAMS)


def test_what_the_user_gave_is_told_from_the_defaults():
    given = options(ClassificationOptions, problem_type="single_label", max_windows=4)
    assert (given.problem_type, given.where_given("problem_type")) == ("single_label", "single_label")
    assert (given.max_windows, given.where_given("max_windows")) == (4, 4)
    assert (given.long_text, given.where_given("long_text")) == ("truncate", None)


def test_a_misspelled_option_is_refused_when_the_options_are_made():
    with pytest.raises(TypeError, match="problem_typ"):
        ClassificationOptions(problem_typ="regression")

    @dataclasses.dataclass(frozen=True)
    class Misspelled(RunOptions):
        long_txt: str | None = None

    with pytest.raises(AttributeError, match="there is no setting 'long_txt'"):
        options_of(Misspelled, Settings({field.name: None for field in dataclasses.fields(RunOptions)}))


def test_a_file_that_was_not_given_is_asked_for():
    assert RunOptions(eval_file="a.tsv").file_of("dev", "questions") == "a.tsv"
    with pytest.raises(ValueError, match=r"`do_predict` requires questions\. Specify `predict_file`\."):
        RunOptions(eval_file="a.tsv").file_of("test", "questions")
