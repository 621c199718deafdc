"""A search with trials that are made up: which are made, which go on, what fails, and what is told of them."""

import dataclasses
import html
import json
import math

import pytest

from bert_tf.evaluation.results import write_results
from bert_tf.experiments.tuning import tuner as tuner_module
from bert_tf.experiments.tuning.report import write_tuning_report
from bert_tf.experiments.tuning.samplers import TpeSampler
from bert_tf.experiments.tuning.search_space import parse_axes
from bert_tf.experiments.tuning.trials import Folder, SuccessiveHalving, numbered
from bert_tf.experiments.tuning.tuner import Tuner
from bert_tf.utils import logged_runs
from bert_tf.utils.settings import Flag

POINTS = [{"learning_rate": rate, "train_batch_size": batch} for rate in ("1e-5", "1e-4") for batch in ("8", "16")]
ONE = SuccessiveHalving()
SCORES = {1: 0.5, 2: 0.7, 3: 0.6, 4: 0.4}


class Children:
    """Stands for the processes that make trials: notes their flags, and writes what a trial of that number scores."""

    def __init__(self, monkeypatch, scores, metric="accuracy"):
        self.flags, self.scores, self.metric, self.of_one_answer = [], scores, metric, ()
        monkeypatch.setattr(logged_runs, "execute_resumable", self._execute)
        # Drawing takes longer than all else; see the last test.
        monkeypatch.setattr(tuner_module, "write_tuning_report", lambda *_: None)

    def _execute(self, program, flags, folder, claim):
        assert program == "run_classifier"
        self.flags.append(flags)
        number = int(folder.name.removeprefix("trial-"))
        if self.scores.get(number) is None:
            return False
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.ckpt-10.index").write_text("")
        write_results(str(folder), {self.metric: self.scores[number], "loss": 0.5}, 10)
        answers = "yes yes" if number in self.of_one_answer else "no yes"
        rows = [f"{i}\t{gold}\t{given}" for i, (gold, given) in enumerate(zip("01", answers.split(), strict=True))]
        (folder / "eval_predictions.tsv").write_text("\n".join(["id\tlabel\tprediction", *rows, ""]))
        return True

    @property
    def made(self):
        """The folders of the trials, in the order in which they were made."""
        return ["/".join(flags[0].split("/")[-2:]).removeprefix("out/") for flags in self.flags]


def _tuner(tmp_path, stages=ONE, points=POINTS, metric="eval_accuracy", others=("--seed=1",), keep_all=False):
    folder = Folder(tmp_path / "out", stages, metric)
    return Tuner("run_classifier", others, 3.0, numbered(points), folder, keep_all, None)


def test_each_trial_is_made_once_and_the_best_is_kept(tmp_path, monkeypatch):
    children, tuner = Children(monkeypatch, SCORES), _tuner(tmp_path)
    tuner.run()
    out = tmp_path / "out"
    assert children.made == ["trial-1", "trial-2", "trial-3", "trial-4"]
    assert children.flags[1] == [
        f"--output_dir={out}/trial-2", "--do_train", "--do_eval", "--learning_rate=1e-5", "--train_batch_size=16",
        "--save_checkpoints_steps=200", "--keep_checkpoints=1", "--seed=1",
    ]  # fmt: skip
    assert tuner.best().trial.number == 2 and not tuner.failed
    assert [path.parent.name for path in out.glob("*/model.ckpt-*")] == ["trial-2"]
    assert tuner.command(tuner.best()).startswith(f"bert-tf train classifier --output_dir={out}/trial-2 --do_train")
    again = _tuner(tmp_path)
    again.run()
    assert len(children.flags) == 4 and again.best() == tuner.best()
    more = _tuner(tmp_path, points=[*POINTS, {"learning_rate": "1e-3", "train_batch_size": "8"}])
    children.scores = {5: 0.9}
    more.run()
    assert children.made[4:] == ["trial-5"] and more.best().trial.number == 5


def test_the_best_of_each_stage_go_on_with_more_epochs(tmp_path, monkeypatch):
    children, tuner = (
        Children(monkeypatch, SCORES),
        _tuner(tmp_path, SuccessiveHalving(3), others=["--num_train_epochs=3"]),
    )
    tuner.run()
    first = [f"stage-1/trial-{number}" for number in (1, 2, 3, 4)]
    assert children.made == [*first, "stage-2/trial-2", "stage-2/trial-3", "stage-3/trial-2"]
    epochs = [[flag for flag in flags if flag.startswith("--num_train_epochs")] for flags in children.flags]
    assert epochs == [["--num_train_epochs=0.75"]] * 4 + [["--num_train_epochs=1.5"]] * 2 + [["--num_train_epochs=3"]]
    assert (tuner.best().stage, tuner.best().trial.number) == (3, 2)


def test_epochs_may_be_searched_too(tmp_path, monkeypatch):
    children = Children(monkeypatch, {1: 0.5, 2: 0.6})
    _tuner(tmp_path, SuccessiveHalving(2), [{"num_train_epochs": "2"}, {"num_train_epochs": "4"}]).run()
    epochs = [flag for flags in children.flags for flag in flags if flag.startswith("--num_train_epochs")]
    assert epochs == ["--num_train_epochs=1", "--num_train_epochs=2", "--num_train_epochs=4"]


def test_what_fails_is_told_and_made_again_and_the_rest_goes_on(tmp_path, monkeypatch):
    children, tuner = Children(monkeypatch, {**SCORES, 2: None, 4: math.nan}), _tuner(tmp_path, SuccessiveHalving(2))
    tuner.run()
    assert [(trial.number, stage) for trial, stage in tuner.failed] == [(2, 1)] and tuner.best().trial.number == 3
    assert children.made[4:] == ["stage-2/trial-3", "stage-2/trial-1"]  # NaN does not go on
    children.scores, again = SCORES, _tuner(tmp_path, SuccessiveHalving(2))
    again.run()
    assert children.made[6:] == ["stage-1/trial-2", "stage-2/trial-2"] and again.best().trial.number == 2


def _failing(monkeypatch, errors):
    """Has trials fail, each with the log of its number, the last of them for all others; returns which were made."""
    made = []

    def execute(program, flags, folder, claim):
        made.append(int(folder.name.removeprefix("trial-")))
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / logged_runs.LOG_FILE).open("a", encoding="utf-8") as log:
            log.write(errors[min(made[-1], len(errors)) - 1].replace("HERE", str(folder)))
        return False

    monkeypatch.setattr(logged_runs, "execute_resumable", execute)
    monkeypatch.setattr(tuner_module, "write_tuning_report", lambda *_: None)
    return made


OF_DATA = "12:00:01 It begins.\n12:00:02 Error: train.tsv:3: a row must have a label; got none; correct it.\n"


@pytest.mark.parametrize(
    ("errors", "stops_after", "told"),
    [
        ([OF_DATA], 1, "as in trial 1: train.tsv:3: a row must have a label; got none; correct it"),
        (["12:00:01 Error: No room for HERE/x.\n", "12:00:09 Error: No room for HERE/x.\n"], 2,
         "as in trial 1, trial 2: No room for /x"),
        (["12:00:01 Error: one.\n", "12:00:01 Error: another.\n", "12:00:01 Error: a third.\n"], None, None),
        (["12:00:02 Error: train.tsv: rows are longer than --learning_rate.\n", "12:00:02 Error: b\n"], None, None),
        (["12:00:01 Error: of old.\nTraceback (most recent call last):\n  ...\nKeyError: 1\n"], None, None),
    ],
)  # fmt: skip
def test_an_error_that_all_trials_share_ends_the_search(tmp_path, monkeypatch, errors, stops_after, told):
    made = _failing(monkeypatch, errors)
    tuner = _tuner(tmp_path, others=("--train_file=train.tsv", "--seed=1"))
    if stops_after is None:
        tuner.run()
        assert made == [1, 2, 3, 4]
        return
    with pytest.raises(ValueError, match="fail with the same error, " + told):
        tuner.run()
    assert made == list(range(1, stops_after + 1)) and len(tuner.failed) == stops_after


def test_after_one_has_ended_well_every_error_is_one_trial_s_own(tmp_path, monkeypatch):
    children = Children(monkeypatch, {1: 0.5})
    ends_well = logged_runs.execute_resumable
    made = _failing(monkeypatch, [OF_DATA])
    fails = logged_runs.execute_resumable
    monkeypatch.setattr(logged_runs, "execute_resumable", lambda *a: (fails if children.flags else ends_well)(*a))
    tuner = _tuner(tmp_path, others=("--train_file=train.tsv",))
    tuner.run()
    assert made == [2, 3, 4] and tuner.best().trial.number == 1


def test_trials_that_score_as_the_best_does_are_named(tmp_path, monkeypatch):
    write = write_tuning_report
    Children(monkeypatch, {1: 0.5, 2: 0.62, 3: 0.62, 4: math.nan})
    tuner = _tuner(tmp_path)
    assert tuner.as_good() == []
    tuner.run()
    assert tuner.best().trial.number == 2 and [each.trial.number for each in tuner.as_good()] == [3]
    monkeypatch.setattr(tuner_module, "write_tuning_report", write)
    tuner.report()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Tied for the best: trial 2, trial 3. The first is taken; eval_accuracy is the same." in page
    assert page.count("; as good as the best") == 1


def test_trials_that_learned_nothing_are_marked_and_come_last(tmp_path, monkeypatch, caplog):
    write = write_tuning_report
    children, tuner = (
        Children(monkeypatch, {1: 0.68, 2: 0.62, 3: 0.66, 4: 0.68}),
        _tuner(tmp_path, SuccessiveHalving(2)),
    )
    children.of_one_answer = (1, 4)
    tuner.run()
    assert children.made[4:] == ["stage-2/trial-3", "stage-2/trial-2"] and tuner.best().trial.number == 3
    assert caplog.text.count("It predicts 'yes' for all examples: it learned nothing.") == 2
    monkeypatch.setattr(tuner_module, "write_tuning_report", write)
    tuner.report()
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("; learned nothing: it predicts &#x27;yes&#x27; for all examples") == 2
    assert "one prediction for all; excluded from the means below" in page
    assert "mean of 1; best 0.66" in page and "best 0.68" not in page
    table = [line.split("\t") for line in (tmp_path / "out" / "trials.tsv").read_text().splitlines()]
    assert [line[-2] for line in table] == ["one_answer", "yes", "", "", "yes", "", ""]


def test_where_no_trial_learned_anything_the_best_is_said_to_have_learned_nothing(tmp_path, monkeypatch):
    write, children = write_tuning_report, Children(monkeypatch, SCORES)
    children.of_one_answer, tuner = (1, 2, 3, 4), _tuner(tmp_path)
    tuner.run()
    assert tuner.best().trial.number == 2
    monkeypatch.setattr(tuner_module, "write_tuning_report", write)
    tuner.report()
    assert "which has learned nothing, and no other has" in (tmp_path / "out" / "report.html").read_text()


def test_only_the_last_stage_knows_of_ties(tmp_path, monkeypatch):
    Children(monkeypatch, dict.fromkeys(range(1, 5), 0.5))
    tuner = _tuner(tmp_path, SuccessiveHalving(3))
    tuner.run()
    assert tuner.best().stage == 3 and tuner.as_good() == []


def test_less_loss_is_better(tmp_path, monkeypatch):
    Children(monkeypatch, SCORES, metric="loss")
    tuner = _tuner(tmp_path, metric="eval_loss")
    tuner.run()
    assert tuner.best().score == 0.5  # every trial's: `write_results` was given it last


def test_a_metric_is_named_with_or_without_eval_and_a_name_that_no_program_has_is_refused_at_once(tmp_path):
    for name in ("accuracy", "eval_accuracy"):
        folder = _tuner(tmp_path, metric=name).folder
        assert folder.metric == "eval_accuracy" and folder.higher
    assert not _tuner(tmp_path, metric="loss").folder.higher
    for name in ("eval_bleu", "bleu", "global_step", "predict_accuracy"):
        with pytest.raises(ValueError, match=f"must be a metric in eval_results.txt.*got '{name}'"):
            _tuner(tmp_path, metric=name)


def test_a_score_that_trials_do_not_have_ends_the_search(tmp_path, monkeypatch):
    children = Children(monkeypatch, SCORES)
    with pytest.raises(ValueError, match=r"one of eval_accuracy, eval_loss, global_step; got 'eval_f1'"):
        _tuner(tmp_path, metric="eval_f1").run()
    assert children.made == ["trial-1"]
    _tuner(tmp_path).run()  # with the right one nothing is made twice
    assert children.made == ["trial-1", "trial-2", "trial-3", "trial-4"]


def test_all_trials_are_written_as_a_table_and_a_page(tmp_path, monkeypatch):
    write = write_tuning_report
    Children(monkeypatch, {**SCORES, 3: None, 4: math.nan})
    tuner = _tuner(tmp_path)
    tuner.run()
    monkeypatch.setattr(tuner_module, "write_tuning_report", write)
    tuner.report()
    table = [line.split("\t") for line in (tmp_path / "out" / "trials.tsv").read_text().splitlines()]
    assert table[0] == ["trial", "stage", "learning_rate", "train_batch_size", "eval_accuracy", "eval_loss",
                        "global_step", "one_answer", "seconds"]  # fmt: skip
    assert [line[:5] for line in table[1:3]] == [["1", "1", "1e-5", "8", "0.5"], ["2", "1", "1e-5", "16", "0.7"]]
    page = (tmp_path / "out" / "report.html").read_text()
    command = html.escape(tuner.command(tuner.best()))
    texts = ("Trials: metric by flag", "learning_rate 1e-5", "mean of 2; best 0.7", "3 of 4", "nan", command,
             "rerun the same command to repeat them")  # fmt: skip
    for text in texts:
        assert text in page, text
    tuner.report()
    assert (tmp_path / "out" / "report.html").read_text() == page
    note = json.loads((tmp_path / "out" / "trial-2" / "finished.json").read_text())
    assert note["values"] == POINTS[1] and note["stage"] == 1


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"seconds": "x"}'])
def test_a_trial_whose_note_is_damaged_is_made_again_and_does_not_end_the_others(tmp_path, monkeypatch, note):
    Children(monkeypatch, SCORES)
    _tuner(tmp_path).run()
    (tmp_path / "out" / "trial-3" / "finished.json").write_text(note)
    children, tuner = Children(monkeypatch, SCORES), _tuner(tmp_path)
    tuner.run()
    assert children.made == ["trial-3"] and not tuner.failed


def _sampled_tuner(tmp_path, count, metric="eval_accuracy", stages=ONE, text="learning_rate=1e-5..1e-2"):
    folder = Folder(tmp_path / "out", stages, metric)
    folder.path.mkdir(exist_ok=True)
    flags = [Flag("learning_rate", 5e-5, "", "float"), Flag("train_batch_size", 8, "", "integer")]
    flags = [dataclasses.replace(flag, decides_result=True) for flag in flags]
    sampler = TpeSampler(folder.path, parse_axes(text, flags), count, 3, folder.higher)
    return Tuner("run_classifier", (), 3.0, sampler.trials(), folder, False, None, sampler)


def _values(tuner):
    return [dict(trial.values) for trial in tuner.trials]


class ByRate(Children):
    """Trials whose score is the higher, the nearer their learning rate is to 1e-3."""

    def _execute(self, program, flags, folder, claim):
        [rate] = (flag.partition("=")[2] for flag in flags if flag.startswith("--learning_rate="))
        self.scores[int(folder.name.removeprefix("trial-"))] = 1 - abs(math.log10(float(rate)) + 3) / 5
        return super()._execute(program, flags, folder, claim)


def test_a_sampled_search_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="needs bert-tf[tune]")
    children = ByRate(monkeypatch, {})
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    whole = _sampled_tuner(tmp_path / "a", 9)
    whole.run()
    monkeypatch.setattr(logged_runs, "execute_resumable", _stop_at(7, children))
    with pytest.raises(KeyboardInterrupt):
        _sampled_tuner(tmp_path / "b", 9).run()
    ByRate(monkeypatch, {})
    rest = _sampled_tuner(tmp_path / "b", 9)
    assert len(rest.trials) == 7 and rest.folder.result(rest.trials[6], 1) is None
    rest.run()
    assert _values(rest) == _values(whole)


def _stop_at(number, children):
    def execute(program, flags, folder, claim):
        if folder.name == f"trial-{number}":
            raise KeyboardInterrupt
        return children._execute(program, flags, folder, claim)

    return execute


def test_a_small_space_is_sampled_to_its_end_and_the_best_go_on(tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="needs bert-tf[tune]")
    children = Children(monkeypatch, {1: 0.5, 2: 0.7, 3: None, 4: 0.6})
    text = "learning_rate=1e-5,1e-4;train_batch_size=8,16"
    tuner = _sampled_tuner(tmp_path, 10, stages=SuccessiveHalving(2), text=text)
    tuner.run()
    assert sorted(map(str, _values(tuner))) == sorted(map(str, POINTS))
    assert children.made == [*(f"stage-1/trial-{n}" for n in (1, 2, 3, 4)), "stage-2/trial-2", "stage-2/trial-4"]
    assert [trial.number for trial, _ in tuner.failed] == [3]
