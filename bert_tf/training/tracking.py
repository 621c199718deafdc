"""Experiment tracking: also logs a run's history to Weights & Biases or MLflow, if installed.

Metrics have the names of history.jsonl, prefixed with the kind of the line: train/loss, eval/accuracy. A resumed run
also continues in the tracker: OUTPUT_DIR/tracking.json has its id.
"""

import contextlib
import importlib
import json
import math
import os
from collections.abc import Iterator

from absl import logging

from bert_tf.training.history import History
from bert_tf.utils.files import write_text

TRACKING_FILE = "tracking.json"


class _Wandb:
    def __init__(self, package):
        self._package, self._run = package, None

    def begin(self, name, folder, run_id, flags):
        self._run = self._package.init(name=name, dir=folder, id=run_id, resume="allow", config=flags)
        self._run.define_metric("*", step_metric="step")  # its own steps cannot go back, as a resumed run may
        return self._run.id

    def log(self, step, values):
        self._run.log({"step": step, **values})

    def end(self, ended_well):
        self._run.finish(exit_code=0 if ended_well else 1)


class _Mlflow:
    def __init__(self, package):
        self._package = package

    def begin(self, name, folder, run_id, flags):
        run = self._package.start_run(run_id=run_id, run_name=name)
        if run_id is None:  # params can be set only once
            self._package.log_params(flags)
        return run.info.run_id

    def log(self, step, values):
        self._package.log_metrics(values, step=step)

    def end(self, ended_well):
        self._package.end_run("FINISHED" if ended_well else "FAILED")


TRACKERS = {"wandb": _Wandb, "mlflow": _Mlflow}  # the key is also the package's name


def check_tracking(tracker: str | None):
    """Raises ValueError if the package of `tracker` cannot be imported; None for no tracker."""
    if tracker:
        _package(tracker)


def make_history(tracker: str | None, *args, **kwargs) -> History:
    """Returns the `History` of a run; with a tracker, one that also logs to it.

    Args:
        tracker: a key of `TRACKERS`, or None.
        args, kwargs: arguments of `History`.

    Raises:
        ValueError: as `check_tracking`.
    """
    return TrackedHistory(tracker, *args, **kwargs) if tracker else History(*args, **kwargs)


class TrackedHistory(History):
    """A `History` that also logs to a tracker; if the tracker becomes unreachable, a warning is logged.

    Args:
        tracker: a key of `TRACKERS`.
        args, kwargs: arguments of `History`.
    """

    def __init__(self, tracker: str, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._name, self._tracker, self._begun = tracker, TRACKERS[tracker](_package(tracker)), False

    def start(self, step: int, origin: str | None, retrained_from: dict | None = None):
        """Also starts or continues the run in the tracker; a rolled-back run stays the same run.

        Raises:
            ValueError: the tracker cannot start a run, or as `History.start`.
        """
        super().start(step, origin, retrained_from)
        if self._begun:
            return
        path, name = os.path.join(self._directory, TRACKING_FILE), os.path.basename(os.path.abspath(self._directory))
        known = _read(path)
        try:
            known[self._name] = self._tracker.begin(name, self._directory, known.get(self._name), self._flags)
        except Exception as error:  # of whatever class that package has
            raise ValueError(
                f"`tracking={self._name}` could not start a run: {error}. Log in, or set where it stores its "
                "runs (see its documentation), or remove the option."
            ) from error
        write_text(path, json.dumps(known) + "\n")
        self._begun = True

    def trained(self, step: int, values: dict):
        super().trained(step, values)
        self._log("train", step, values)

    def evaluated(self, step: int, scores: dict):
        super().evaluated(step, scores)
        self._log("eval", step, scores)

    def end(self, ended_well: bool):
        """Ends the run in the tracker, if it was started."""
        if self._begun:
            self._begun = False
            self._try(self._tracker.end, ended_well)

    def _log(self, kind, step, values):
        if self._begun:
            finite = {f"{kind}/{name}": float(value) for name, value in values.items() if math.isfinite(value)}
            self._try(self._tracker.log, int(step), finite)

    def _try(self, function, *args):
        try:
            function(*args)
        except Exception as error:  # a long run must not fail because a tracker does
            logging.warning("`tracking=%s` failed to log: %s. Training continues.", self._name, error)


@contextlib.contextmanager
def tracked(history: History | None) -> Iterator[None]:
    """Ends the tracker's run, if any, at the end of the block: as finished, or as failed after an error or a signal."""
    end = history.end if isinstance(history, TrackedHistory) else lambda ended_well: None
    try:
        yield
    except BaseException:
        end(False)
        raise
    end(True)


def _package(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"`tracking={name}` requires the package {name}: {error}. Install it with "
            f"`pip install {name}`, or remove `tracking`."
        ) from error


def _read(path):
    """Returns {tracker: id of its run}."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        try:
            return dict(json.load(file))
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path} must contain the tracker ids of the run as JSON: {error}. Delete it to start new tracked runs."
            ) from error
