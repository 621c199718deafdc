"""Whether everything works on an accelerator, and how fast: a table while it runs, then results.json and results.md.

    make prove-gpu                                        the GPUs of this machine, within 15 minutes
    make prove-gpu ARGS=--rehearse                        the same steps on the CPU, small, with two virtual devices
    make prove-gpu ARGS=--tpu                             a TPU VM: the steps that TPUStrategy can make
    python benchmarks/prove_accelerator.py [--steps=product,memory] [--budget_minutes=15] [--again] [--dry_run]

The steps are in order of what they tell: what a training step costs comes first. Each is a process with its own limit
and log, in a folder of --output_dir: one that fails or hangs does not end the others. The same command continues where
it was stopped: steps that have passed on these devices and versions are kept, with the revision of the code that they
ran, unless --again repeats them. Programs that XLA compiled and kernels that it chose are kept in --programs_dir. The
exit status is 1 if a step failed, or did not run for want of time.
"""

import argparse
import contextlib
import dataclasses
import datetime
import glob
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from accelerator_run import FIGURES, SKIPPED
from peers import ROOT, gpus

sys.path.insert(0, str(ROOT))
from bert_tf.utils import resources
from bert_tf.utils.files import write_text
from bert_tf.utils.package_versions import package_versions
from tools.docs import accelerators

# A rehearsal may share its few cores with other work.
_BUDGET_MINUTES = {"gpu": 15, "tpu": 15, "rehearsal": 60}
_PATIENCE = {"gpu": 1, "tpu": 1, "rehearsal": 3}
_SHORTEST_S = 10  # of the budget: less is not worth a start
_OUTCOME = "outcome.json"
_TPUS = ("/dev/accel*", "/dev/vfio/[0-9]*")  # the chips of a TPU VM


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the table.

    Attributes:
        name: of its function, which accelerator_steps.py calls.
        what: it shows.
        limit_s: seconds after which it is ended.
        on_tpu: whether a TPU makes it, too.
        expected: what was expected of an H200 before one was asked, where the step gives a number.
    """

    name: str
    what: str
    limit_s: int
    on_tpu: bool = False
    expected: str = ""


STEPS = (
    Step("product", "the device is used; its matrix product", 120, True, "680 TFLOP/s in bfloat16"),
    Step(
        "fine_tuning", "throughput of fine-tuning", 360, True,
        "3,000 sequences per second for 32 x 128, 40% of the product for 256 x 128, first steps under 75 s",
    ),
    Step("profile", "kernels, launches and idle time of fine-tuning", 180, False,
         "under 3,000 kernels a step and under 15% idle for 32 x 128, first steps under 30 s"),
    Step("pretraining", "throughput of pretraining with LAMB", 300, True, "700 sequences per second"),
    Step("inference", "throughput of inference", 120, False, "13,000 sequences per second"),
    Step("torch", "the fine-tuning of PyTorch next to ours", 240, False, "ours as fast or faster in each shape"),
    Step("fused_attention", "cuDNN's fused attention in a compiled step", 120, False,
         "1.3 times as fast as the plain form for 2,048 tokens, or an error"),
    Step("precisions", "float32, bfloat16 and float16, with and without XLA", 240, True),
    Step("xla_flags", "each of XLA's flags alone", 480, False,
         "command buffers of all kinds 1.1 times none, the others 0.95 to 1.05 times"),
    Step("resume", "stopped and resumed with --deterministic", 240, True),
    Step("memory", "planned and actual memory", 240),
    Step("mirrored", "MirroredStrategy on several devices", 180),
    Step("exports", "exports served with and without XLA", 300),
    Step("tests", "fast tests of what runs on a device", 300),
    Step("bench", "make bench, short", 300),
)  # fmt: skip


def main():
    options = _options()
    mode = "rehearsal" if options.rehearse else "tpu" if options.tpu else "gpu"
    steps = [step for step in STEPS if step.name in options.steps]
    if options.dry_run:
        print("\n".join(f"{step.name:<15} at most {step.limit_s:>3} s  {step.what}" for step in steps))
        return
    if options.peer_python:
        os.environ["BERT_TF_TORCH_PYTHON"] = options.peer_python
    steps = [dataclasses.replace(step, limit_s=_PATIENCE[mode] * step.limit_s) for step in steps]
    if missing := _missing_device(mode):
        sys.exit(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the running step is ended, too
    folder = pathlib.Path(options.output_dir or ROOT / "build" / "proof" / mode).resolve()
    results = pathlib.Path(options.results or folder / "results.json")
    try:
        for place in (folder, results.parent):
            place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{place} must be a writable folder. Choose another --output_dir or --results: {error}.")
    if mode != "tpu":
        keep_programs(pathlib.Path(options.programs_dir or folder / "programs").resolve())
    machine, revision = describe_machine(mode), find_revision()
    print(f"{', '.join(machine['devices'])}; TensorFlow {machine['tensorflow']}; revision {revision}")
    begin, budget = time.monotonic(), options.budget_minutes or _BUDGET_MINUTES[mode]

    def command(step, place):
        return [sys.executable, str(ROOT / "benchmarks" / "accelerator_steps.py"), step.name, mode, str(place)]

    outcomes = []
    for outcome in prove(steps, command, folder, machine, revision, 60 * budget, options.again):
        outcomes.append(outcome)
        report = make_report(folder, machine, revision, budget, time.monotonic() - begin)
        write_text(results, json.dumps(report, indent=1) + "\n")
        write_text(results.with_suffix(".md"), accelerators.page(report))
    print(f"{results}\n{results.with_suffix('.md')}")
    sys.exit(any(outcome["status"] not in ("passed", "skipped") for outcome in outcomes))


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = parser.add_mutually_exclusive_group()
    device.add_argument("--rehearse", action="store_true", help="on the CPU, small, with two virtual devices")
    device.add_argument("--tpu", action="store_true", help="on the TPU of this machine")
    parser.add_argument("--steps", help="default: all that the device can run")
    parser.add_argument("--budget_minutes", type=float, help="time for all steps; default: 15, rehearsing 60")
    parser.add_argument("--output_dir", help="folder of logs; default: build/proof/gpu, tpu or rehearsal")
    parser.add_argument("--programs_dir", help="compiled programs to use and to add to; default: in --output_dir")
    parser.add_argument("--peer_python", help="a Python with torch and transformers; default: BERT_TF_TORCH_PYTHON, "
                        "else this Python or python3 if it has them")  # fmt: skip
    parser.add_argument("--results", help="a file of JSON, with a page of Markdown next to it")
    parser.add_argument("--again", action="store_true", help="repeat steps that have passed")
    parser.add_argument("--dry_run", action="store_true", help="only list the steps")
    options = parser.parse_args()
    if options.peer_python and not shutil.which(options.peer_python):
        parser.error(f"--peer_python must be a Python interpreter; got {options.peer_python}")
    known = _steps_of("tpu" if options.tpu else "gpu")
    options.steps = known if options.steps is None else options.steps.split(",")
    if unknown := [name for name in options.steps if name not in known]:
        on_tpu = " with --tpu" if options.tpu else ""
        parser.error(f"--steps must be among {', '.join(known)}{on_tpu}; got {', '.join(unknown)}")
    if options.budget_minutes is not None and not 0 < options.budget_minutes < float("inf"):
        parser.error(f"--budget_minutes must be a number above 0; got {options.budget_minutes:g}")
    if options.results and (not options.results.endswith(".json") or os.path.isdir(options.results)):
        parser.error(f"--results must be a file that ends in .json, as its page ends in .md; got {options.results}")
    return options


def _steps_of(mode):
    return [step.name for step in STEPS if mode != "tpu" or step.on_tpu]


def _missing_device(mode):
    """Returns what to do about a device that is not there, or None."""
    if mode == "gpu" and not gpus():
        return (
            "No GPU found: nvidia-smi lists none. ARGS=--rehearse runs the same steps on the CPU, with small models "
            "and two virtual devices."
        )
    if mode == "tpu" and not any(map(glob.glob, _TPUS)):
        return f"No TPU found: this machine has none of {', '.join(_TPUS)}. Run --tpu on a TPU VM."
    return None


def keep_programs(folder: pathlib.Path):
    """Lets all later processes use the programs that XLA compiled and the kernels that it chose, and add to them.

    The folder may come from another run on the same kind of GPU with the same TensorFlow. The user's own flags win.
    """
    choices = folder / "kernel_choices"
    choices.mkdir(parents=True, exist_ok=True)
    for name, flag in (
        ("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory='{folder}'"),
        ("XLA_FLAGS", f"--xla_gpu_per_fusion_autotune_cache_dir='{choices}'"),
    ):
        os.environ[name] = f"{flag} {os.environ.get(name, '')}".strip()


def describe_machine(mode: str) -> dict:
    """Returns what decides whether an earlier step counts: the devices and the versions."""
    devices, processor = [], f"{resources.name()}, {resources.cores()} cores"
    if mode == "gpu":
        fields = "name,memory.total,compute_cap,driver_version"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        devices = ["{}, {}, compute capability {}, driver {}".format(*line.split(", ")) for line in lines]
    elif mode == "tpu":
        kind = os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
        devices = [f"{kind} {path}" for pattern in _TPUS for path in sorted(glob.glob(pattern))]
    versions = package_versions(("tensorflow", "keras"))
    return {"mode": mode, "devices": devices or [processor], "processor": processor, "system": platform.platform(),
            **versions}  # fmt: skip


def find_revision() -> str:
    """Returns the revision of the checkout, marked if files differ from it, or "unknown" outside a repository."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    revision = shutil.which("git") and git("rev-parse", "--short=12", "HEAD")
    return f"{revision}{'-dirty' if git('status', '--porcelain') else ''}" if revision else "unknown"


def prove(
    steps: Iterable[Step],
    command: Callable[[Step, pathlib.Path], Sequence[str]],
    folder: pathlib.Path,
    machine: dict,
    revision: str,
    budget_s: float,
    again: bool = False,
):
    """Runs the steps one after the other, prints a line for each, and yields its outcome.

    Args:
        steps: what to run.
        command: returns the command of a step, which writes its figures into the folder that it is given.
        folder: with a folder for each step.
        machine: of `describe_machine`; a step that has passed on the same one is kept.
        revision: of the code.
        budget_s: seconds for all steps.
        again: run those, too; what they found before stays where there is no time for them.
    """
    end, is_terminal = time.monotonic() + budget_s, sys.stdout.isatty()
    print(f"{'left':>6}  {'step':<15} {'result':<8} {'time':>6}")
    for step in steps:
        place = folder / step.name
        before = _kept(place, machine)
        if not before:  # figures of another machine, or of a failure
            shutil.rmtree(place, ignore_errors=True)
        outcome = None if again else before
        if not outcome:
            if is_terminal:
                print(f"{end - time.monotonic():>4.0f} s  {step.name:<15} {step.what} ...", end="\r", flush=True)
            outcome = run_step(step, command(step, place), place, end - time.monotonic(), machine["mode"])
            outcome |= {"revision": revision, "machine": machine}
            if not before or outcome["status"] != "not run":
                place.mkdir(parents=True, exist_ok=True)
                write_text(place / _OUTCOME, json.dumps(outcome, indent=1) + "\n")
            said = outcome["message"] or _figures(place).get("summary", "")
        else:
            said = f"kept, of revision {outcome['revision']}; --again repeats it"
        left = f"{max(0, end - time.monotonic()):>4.0f} s  {step.name:<15} {outcome['status']:<8}"
        print(f"{left} {outcome['seconds']:>4.0f} s  {said}", flush=True)
        yield outcome


def run_step(step: Step, command: Sequence[str], place: pathlib.Path, left_s: float, mode: str) -> dict:
    """Runs a step within its limit and the seconds that are left; returns its status, its seconds, and a message."""
    if left_s < min(_SHORTEST_S, step.limit_s):
        return {"status": "not run", "seconds": 0.0, "message": "the time budget was used up"}
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    # Several processes of a step share a GPU; a rehearsal takes none.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    environment["PYTHONUNBUFFERED"] = "1"  # so that the last line of the log is the last one written
    environment |= {"CUDA_VISIBLE_DEVICES": "-1"} if mode == "rehearsal" else {}
    limit, begin, message, status = min(step.limit_s, left_s), time.monotonic(), "", "failed"
    with open(place / "log", "wb") as log:
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)  # fmt: skip
        try:
            if child.wait(limit):
                message = _last_line(place / "log") or f"status {child.returncode}"
                status = "skipped" if child.returncode == SKIPPED else "failed"
            else:
                status = "passed"
        except subprocess.TimeoutExpired:
            message = f"stopped after {limit:.0f} s; last line: {_last_line(place / 'log')}"
        finally:  # with all that it has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return {"status": status, "seconds": round(time.monotonic() - begin, 1), "message": message}


def _last_line(path):
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _kept(place, machine):
    """Returns the outcome of a step that has passed before on the same machine, or None."""
    outcome = _read(place / _OUTCOME)
    return outcome if outcome.get("status") == "passed" and outcome.get("machine") == machine else None


def _figures(place):
    return _read(place / FIGURES)


def _read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def make_report(folder: pathlib.Path, machine: dict, revision: str, budget_minutes: float, seconds: float) -> dict:
    """Returns the results of all steps on this machine, run or not, for results.json and the page."""
    steps = {}
    for step in STEPS:
        outcome, figures = _read(folder / step.name / _OUTCOME), _figures(folder / step.name)
        if outcome.pop("machine", None) != machine:
            outcome, figures = {"status": "not run", "seconds": 0.0, "message": "", "revision": revision}, {}
        if machine["mode"] != "tpu" or step.on_tpu:
            steps[step.name] = {"what": step.what, "expected": step.expected, **outcome, "figures": figures}
    best = steps.get("product", {}).get("figures", {}).get("tflops", {})
    for step in steps.values():
        for speed in step["figures"].get("speeds", []):
            if peak := best.get(speed["precision"].removeprefix("mixed_")):
                speed["share_of_product"] = speed["tflops"] / peak
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    report = {**machine, "revision": revision, "date": day, "budget_minutes": budget_minutes}
    return {**report, "seconds": round(seconds, 1), "anchors": accelerators.ANCHORS, "steps": steps}


if __name__ == "__main__":
    main()
