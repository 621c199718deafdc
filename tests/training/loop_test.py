"""A run from begin to end: resuming, settings, broken checkpoints, initial weights."""

import logging
import os
import shutil
import signal

import numpy as np
import pytest

from bert_tf.checkpoints.checkpoint_manager import CheckpointManager
from bert_tf.checkpoints.tf1 import read_tensors, write_tensors
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.training.interruption import Stopped
from bert_tf.training.run_config import RunConfig
from bert_tf.training.settings import AdamConfig
from bert_tf.training.start import first_state
from bert_tf.training.step import StepConfig
from bert_tf.training.trainer import Trainer
from tests import tiny
from tests.training import runs
from tests.training.runs import saved

WHOLE = ClassificationTask(tiny.config(dropout=0.2), 2)
TASK = tiny.shallow(ClassificationTask)(WHOLE.config, 2)


def _run(folder, steps=10, **changes):
    step = StepConfig(seed=3, accumulation=changes.pop("accumulation", 1))
    values = {"learning_rate": 1e-3, "num_warmup_steps": 2, "save_checkpoints_steps": 4, "step": step}
    values["keep_optimizer"] = True  # to compare all of a run's state at its end
    return RunConfig(os.fspath(folder), 8, steps, **{**values, **changes})


def _fit(run, task=TASK, **options):
    return runs.fit(task, run, **options)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of a run of four steps that has ended; not to be written to."""
    folder = tmp_path_factory.mktemp("ended")
    assert len(_fit(_run(folder, steps=4))) == 4
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"accumulation": 2, "adam": AdamConfig(adam_beta2=0.98, bias_correction=True), "average_weights": 0.4},
    ],
    ids=["plain", "accumulated, with bias correction and averaged weights"],
)
def test_a_resumed_run_is_one_that_never_stopped_to_the_bit(tmp_path, changes):
    whole = _fit(_run(tmp_path / "whole", **changes))
    run = _run(tmp_path / "parts", **changes)
    parts = [_fit(run, kill_after=6), _fit(run, kill_after=9, seed=5), _fit(run, seed=6)]  # nothing is left of it
    assert [sorted(losses) for losses in parts] == [list(range(1, 7)), list(range(5, 10)), [9, 10]]
    assert all(loss == whole[step] for losses in parts for step, loss in losses.items())
    end = saved(tmp_path / "whole", 10)
    runs.assert_equal(end, saved(tmp_path / "parts", 10))
    assert len(end) > 3 * len(TASK.build_model().variables)


def test_a_finished_run_makes_no_step_and_gives_its_state(ended):
    begun = []
    assert _fit(_run(ended, steps=4), on_begin=lambda start, state: begun.append((start, state))) == {}
    ((start, state),) = begun
    assert start == 4 and int(state.optimizer.iterations.numpy()) == 4
    kernel = saved(ended, 4)["bert/pooler/dense/kernel"]
    assert (next(v for v in state.model.variables if v.path == "bert/pooler/dense/kernel").numpy() == kernel).all()


@pytest.mark.slow
def test_a_run_that_a_callback_ends_between_two_checkpoints_is_saved_there(tmp_path):
    def end(step, results, state):
        state.ended_at = 3 if step == 3 else None

    run = _run(tmp_path, save_checkpoints_steps=5)
    assert sorted(_fit(run, watch=end)) == [1, 2, 3]
    assert CheckpointManager(tmp_path).latest()[0] == 3
    again = Trainer(TASK, run)
    again.restore()
    assert again.global_step == 3


@pytest.mark.slow
def test_too_few_batches_end_a_run_with_a_word(tmp_path):
    run = _run(tmp_path)
    with pytest.raises(ValueError, match=r"`batches` ended before step 3 of 10"):
        Trainer(TASK, run).fit(lambda start: list(runs.batches(run)(start).take(2)))


def test_told_to_stop_before_its_first_step_it_says_what_goes_on(tmp_path, caplog):
    with caplog.at_level(logging.WARNING), pytest.raises(Stopped):
        _fit(_run(tmp_path), on_begin=lambda start, state: os.kill(os.getpid(), signal.SIGTERM))
    assert "SIGTERM: stopped after step 0. Run the same command again to resume." in caplog.text
    assert not list(tmp_path.glob("model.ckpt*"))


@pytest.mark.slow
def test_of_a_run_that_has_ended_the_weights_stay_and_its_settings(tmp_path):
    whole, run = _run(tmp_path / "whole", steps=5), _run(tmp_path / "small", steps=5, keep_optimizer=False)
    _fit(whole)
    _fit(run, kill_after=5)
    kept, everything = saved(tmp_path / "small", 5), saved(tmp_path / "whole", 5)
    assert everything.keys() - kept.keys() == {n for n in everything if n.endswith(("/adam_m", "/adam_v"))}
    assert kept.keys() - everything.keys() == {"training/ended"}
    for name in kept.keys() & everything.keys():
        np.testing.assert_array_equal(kept[name], everything[name], err_msg=name)
    assert any(name.endswith("/adam_m") for name in saved(tmp_path / "small", 4))  # one may still go back to it
    begun = []
    assert _fit(run, seed=7, on_begin=lambda start, state: begun.append((start, state))) == {}
    ((start, state),) = begun
    weights = {v.path.removeprefix("classifier/"): v.numpy() for v in state.model.variables}
    assert start == state.ended_at == 5 and all((kept[name] == value).all() for name, value in weights.items())
    with pytest.raises(ValueError, match="num_train_steps: 5 before, 9 now"):
        _fit(_run(tmp_path / "small", steps=9))


@pytest.mark.slow
def test_a_checkpoint_holds_google_s_names_and_the_rest_of_the_run(tmp_path):
    _fit(_run(tmp_path, steps=1), WHOLE)
    tensors = saved(tmp_path, 1)
    names = set(tensors)
    weights = {n for n in names if not n.startswith("training/") and not n.endswith(("/adam_m", "/adam_v"))}
    assert weights - {"global_step"} == {v.path.removeprefix("classifier/") for v in WHOLE.build_model().variables}
    assert {f"{name}/adam_m" for name in weights - {"global_step"}} < names
    assert tensors["global_step"] == 1


def test_a_run_does_not_go_on_from_numbers_that_are_not_finite(tmp_path, ended):
    folder = shutil.copytree(ended, tmp_path / "out")
    tensors = saved(folder, 4)
    tensors["bert/pooler/dense/kernel/adam_v"][1, 2] = np.inf
    write_tensors(f"{folder}/model.ckpt-4", tensors)
    with pytest.raises(ValueError, match=r"ckpt-4 are not finite: inf in bert/pooler/dense/kernel/adam_v at \[1, 2\]"):
        _fit(_run(folder, steps=4))


def test_other_settings_are_refused_by_name(ended):
    before = sorted(os.listdir(ended))
    with pytest.raises(ValueError) as error:
        _fit(_run(ended, steps=4, learning_rate=2e-3, settings={"train_examples": "abc"}))
    assert str(error.value) == (
        f"A run can only resume with the settings that it began with ({ended}/model.ckpt-4). Changed: "
        "learning_rate: 0.001 before, 0.002 now; train_examples: None before, 'abc' now. "
        "Use another `output_dir`, or pass `overwrite_output_dir` to start over."
    )
    assert sorted(os.listdir(ended)) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((1, 2), r"does not contain the complete state of this run: .*layer_1.* are missing"),
        ((2, 1), r"more than this run's model: .*layer_1.* Use another"),
    ],
)
def test_another_model_is_refused_whichever_has_more_layers(tmp_path, layers, words):
    mine, other = (ClassificationTask(tiny.config(num_hidden_layers=n), 2) for n in layers)
    _fit(_run(tmp_path, steps=1), mine)
    with pytest.raises(ValueError, match=rf"model\.ckpt-1 .*{words}"):
        _fit(_run(tmp_path, steps=1), other)


def test_a_checkpoint_of_another_program_is_not_continued(tmp_path):
    CheckpointManager(tmp_path).save(2, {"global_step": np.int64(2)})
    with pytest.raises(ValueError, match=r"only from a checkpoint that it wrote itself\. .*model\.ckpt-2 contains no"):
        _fit(_run(tmp_path))


def test_an_earlier_run_that_is_overwritten_does_not_count(tmp_path, ended):
    folder = shutil.copytree(ended, tmp_path / "out")
    assert sorted(_fit(_run(folder, steps=4, overwrite=True, learning_rate=2e-3))) == [1, 2, 3, 4]


@pytest.mark.slow
def test_the_checkpoint_before_a_half_written_one_is_used_with_a_warning(tmp_path, caplog):
    whole = _fit(_run(tmp_path / "whole"))
    _fit(_run(tmp_path / "cut"), kill_after=9)
    data = tmp_path / "cut" / "model.ckpt-8.data-00000-of-00001"
    os.truncate(data, data.stat().st_size // 2)
    with caplog.at_level(logging.WARNING):
        losses = _fit(_run(tmp_path / "cut"))
    assert losses == {step: whole[step] for step in range(5, 11)}
    (warning,) = [r.getMessage() for r in caplog.records if "incomplete checkpoint" in r.getMessage()]
    assert warning.startswith(f"Skipped an incomplete checkpoint: {tmp_path}/cut/model.ckpt-8 is not a complete TF1")


def test_initial_weights_are_loaded_under_a_fresh_head(tmp_path):
    init = tiny.checkpoint(tmp_path / "init")
    run = _run(tmp_path / "out", steps=1, init_checkpoint=os.fspath(init), num_warmup_steps=1)  # the first rate is 0
    _fit(run, WHOLE)
    start, end = read_tensors(os.fspath(init / "bert_model.ckpt")), saved(tmp_path / "out", 1)
    assert len(start) == 23
    assert all((end[name] == value).all() for name, value in start.items())
    assert end["output_weights"].std() > 0


def test_a_head_begins_as_the_masked_lm_s_if_all_heads_begin_alike(tmp_path, caplog):
    init, config = tiny.pretrained(tmp_path / "init", **tiny.MODERNBERT), tiny.config(**tiny.MODERNBERT)
    run = _run(tmp_path / "out", init_checkpoint=os.fspath(init))
    with caplog.at_level(logging.INFO):
        state, _ = first_state(ClassificationTask(config, 2), run)
    weights, layers = read_tensors(os.fspath(init / "bert_model.ckpt")), "cls/predictions/transform"
    own = {v.path: np.asarray(v) for v in state.model.variables if v.path.startswith("classifier/")}
    for name in ("dense/kernel", "dense/bias", "LayerNorm/gamma"):
        np.testing.assert_array_equal(own.pop(f"classifier/{name}"), weights[f"{layers}/{name}"])
    assert own.keys() == {"classifier/output_weights", "classifier/output_bias"}
    assert f"start from those of the masked-LM head: classifier/dense/kernel from {layers}/dense/kernel" in caplog.text
    assert "2 not in the checkpoint, randomly initialized: classifier/output_weights, classifier/" in caplog.text


def test_nothing_is_written_where_the_initial_weights_are_not_good(tmp_path):
    init = tiny.checkpoint(tmp_path / "init")
    data = init / "bert_model.ckpt.data-00000-of-00001"
    os.truncate(data, data.stat().st_size // 2)
    called = []
    with pytest.raises(ValueError, match=r"bert_model\.ckpt is not a complete TF1 checkpoint"):
        _fit(_run(tmp_path / "out", init_checkpoint=os.fspath(init)), WHOLE, on_begin=lambda *_: called.append(1))
    assert not called and not (tmp_path / "out").exists()


@pytest.mark.parametrize("batch_size, parts", [(8, 3), (2, 4)])
def test_a_batch_that_cannot_be_cut_evenly_is_refused(tmp_path, batch_size, parts):
    run = RunConfig(os.fspath(tmp_path), batch_size, 1, step=StepConfig(accumulation=parts))
    with pytest.raises(ValueError, match=rf"`train_batch_size` must be a positive multiple of {parts}: 1 replica "
                       rf"times `gradient_accumulation_steps={parts}`; got {batch_size}\."):  # fmt: skip
        _fit(run)


@pytest.mark.slow
def test_weights_that_a_run_begins_with_in_place_of_random_ones(tmp_path):
    path, asked = "bert/pooler/dense/bias", []

    def first():
        asked.append(1)
        return {path: np.full(32, 7, np.float32)}

    run = _run(tmp_path / "run", steps=2, first_weights=first, learning_rate=1e-9)
    _fit(run, kill_after=1)
    _fit(run)
    np.testing.assert_allclose(saved(tmp_path / "run", 2)[path], 7, atol=1e-6)
    assert len(asked) == 2  # nothing was saved after the first step
    _fit(run)
    from_checkpoint = _run(tmp_path / "other", steps=1, first_weights=first, init_checkpoint=str(tmp_path / "run"))
    _fit(from_checkpoint)
    assert len(asked) == 2
