"""A run around children that only note how they were called: what is done once, what goes on, what is refused."""

import json

import pytest

from bert_tf.pretraining.quick import run as small_run
from bert_tf.pretraining.quick.plan import TRIAL_STEPS
from tests import tiny
from tests.pretraining.quick import support


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Gives the function that runs with stand-ins; `make.children` are those of the latest run."""
    monkeypatch.setattr(small_run, "best_precision", lambda: "mixed_bfloat16")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("The film is a story. It is good.\n")

    def run(fails=None, taught=False, seconds=None, rows=10_000, **given):
        given = {"input_file": [str(tmp_path / "corpus")], "output_dir": str(tmp_path / "small"), "minutes": 10} | given
        recipe = support.recipe(taught)
        children = run.children = support.Children(recipe.phases, **seconds or {})
        children.fails, children.rows = fails, rows
        return small_run.pretrain_small(support.options(**given), recipe, children.execute, children.clock)

    run.folder = tmp_path / "small"
    return run


BEFORE = ["train_vocabulary", "create_pretraining_data", "create_pretraining_data"]


def _plan(make):
    return json.loads((make.folder / "plan.json").read_text())


def test_every_step_is_made_in_its_order(make):
    make()
    assert make.children.programs() == [*BEFORE, "run_pretraining", "run_pretraining"]
    calibration, training = (flags for program, flags in make.children.called if program == "run_pretraining")
    assert calibration["phases"] == f"16x{TRIAL_STEPS}@8,32x{TRIAL_STEPS}@4"
    # 4 s are used, the calibration's 12 s of steps are more than its second; 0.1 s a step: 80 and 40 rows a second.
    assert training["phases"] == "16x3576@8,32x2384@4" and training["output_dir"] == str(make.folder)
    assert training["precision"] == "mixed_bfloat16" and training["num_warmup_steps"] == "150"


def test_the_plan_says_it_all(make):
    make()
    plan = _plan(make)
    assert (plan["minutes"], round(plan["minutes_used"] * 60, 6), plan["start_seconds"]) == (10, 4.0, 0.0)
    assert plan["phases"][0] == {
        "max_seq_length": 16, "train_batch_size": 8, "rows_per_second": 80.0, "num_train_steps": 3576,
        "rows": 10_000, "times_read": 2.861,
    }  # fmt: skip
    assert len(plan["commands"]) == 5 and "vocab train" in plan["commands"][0]
    assert "--phases=16x3576@8,32x2384@4" in plan["commands"][-1]


def test_the_network_has_the_size_of_the_vocabulary(make):
    make()
    config = json.loads((make.folder / "work" / "bert_config.json").read_text())
    assert config["vocab_size"] == len(support.VOCAB) and config["hidden_size"] == 32 and config["norm_first"]


def test_text_for_no_step_is_refused_before_the_calibration(make):
    with pytest.raises(ValueError, match="for one step, 8 sequences of 16 tokens.* for 7; add text and start in a"):
        make(rows=7)
    assert make.children.programs() == BEFORE


def test_a_vocabulary_of_fewer_pieces_than_the_network_is_wide_is_refused(make, monkeypatch):
    monkeypatch.setattr(support, "VOCAB", tiny.VOCAB)
    with pytest.raises(ValueError, match=f"as the width of the encoder, 32. It has {len(tiny.VOCAB)} in .* more text"):
        make()
    assert make.children.programs() == BEFORE


def test_text_that_is_not_read_to_its_end_is_told_of(make, caplog):
    make()
    assert "only covers" not in caplog.text
    make(rows=100_000, output_dir=str(make.folder) + "-2")
    assert "The time budget only covers 29% of the text." in caplog.text


def test_once_finished_nothing_is_done_again(make):
    make()
    make()
    assert make.children.called == []


@pytest.mark.parametrize("fails", ["train_vocabulary", "create_pretraining_data", "run_pretraining"])
def test_the_same_command_goes_on_where_a_step_failed(make, fails):
    with pytest.raises(ValueError, match="failed with status"):
        make(fails=fails)
    ended = make.children.programs()
    assert ended[-1] == fails and not (make.folder / "plan.json").exists()
    make()
    assert [*ended[:-1], *make.children.programs()] == [*BEFORE, "run_pretraining", "run_pretraining"]
    assert _plan(make)["phases"][0]["num_train_steps"] == 3576, "the time of finished steps alone is counted"


def test_a_run_that_goes_on_keeps_its_plan(make, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="failed with status"):
        patch.setattr(support.Children, "_run_pretraining", _fails_in_training)
        make()
    before = (make.folder / "plan.json").read_bytes()
    make(seconds={"rates": (8.0, 4.0)})  # slower now
    ((program, flags),) = make.children.called
    assert program == "run_pretraining" and flags["phases"] == "16x3576@8,32x2384@4"
    assert (make.folder / "plan.json").read_bytes() == before


_calibrates = support.Children._run_pretraining


def _fails_in_training(self, flags):
    if flags["output_dir"].endswith("small"):
        raise ValueError("The command above failed with status")
    _calibrates(self, flags)


def test_more_minutes_go_on_where_they_were_too_few(make):
    with pytest.raises(ValueError, match=r"`minutes` must leave time .*; use 1 or more"):
        make(minutes=0.2)
    assert make.children.programs() == [*BEFORE, "run_pretraining"]
    make(minutes=1)
    assert make.children.programs() == ["run_pretraining"]


@pytest.mark.parametrize("minutes", [0, 1])
def test_a_step_that_takes_all_minutes_is_stopped(make, minutes):
    with pytest.raises(ValueError, match="`minutes` is too short .* in the step 'vocabulary'"):
        make(minutes=minutes, seconds={"train_vocabulary": 61.0})
    assert make.children.programs() == ["train_vocabulary"] * bool(minutes)


def test_other_minutes_are_refused_once_there_is_a_plan(make, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="failed with status"):
        patch.setattr(support.Children, "_run_pretraining", _fails_in_training)
        make()
    with pytest.raises(ValueError, match="`minutes` cannot be changed .* got 20, .* planned for 10"):
        make(minutes=20)


@pytest.mark.parametrize(("name", "value"), [("seed", 1), ("do_lower_case", False), ("precision", "float32")])
def test_other_settings_are_refused(make, name, value):
    make()
    with pytest.raises(ValueError, match=f"can only resume with the settings .* Changed: {name}: .* before, .* now"):
        make(**{name: value})


def test_on_another_processor_a_run_goes_on_in_its_precision(make, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="failed with status"):
        patch.setattr(support.Children, "_run_pretraining", _fails_in_training)
        make()
    monkeypatch.setattr(small_run, "best_precision", lambda: "float32")
    make()
    assert make.children.called[-1][1]["precision"] == "mixed_bfloat16"


def test_a_folder_of_somebody_else_is_refused(make):
    make.folder.mkdir()
    (make.folder / "thesis.txt").touch()
    with pytest.raises(ValueError, match="`output_dir` must not exist yet, or be an empty directory"):
        make()
    assert [path.name for path in make.folder.iterdir()] == ["thesis.txt"] and make.children.called == []


def test_what_a_step_left_half_done_is_removed_before_it_is_made_again(make):
    with pytest.raises(ValueError, match="failed with status"):
        make(fails="run_pretraining")
    left = make.folder / "work" / "calibration" / "model.ckpt-7.index"
    left.parent.mkdir()
    left.touch()
    make()
    assert not left.exists()


def test_a_student_of_a_teacher(make, tmp_path):
    teacher = tmp_path / "teacher"
    teacher.mkdir()
    tiny.config(num_hidden_layers=6).save(teacher / "bert_config.json")
    (teacher / "vocab.txt").write_text("".join(f"{piece}\n" for piece in tiny.VOCAB))
    make(taught=True, teacher=str(teacher))
    assert make.children.programs() == ["create_pretraining_data", "edit_model", "run_pretraining", "run_pretraining"]
    assert make.children.called[1][1]["layers"] == "0,5"
    assert not (make.folder / "work" / "bert_config.json").exists()
