"""Train, evaluate, serve and query a sentiment classifier in minutes.

    bert-tf demo
    bert-tf demo "A fine film." "A dull one."

Fine-tunes a pretrained MiniLM on film reviews, then queries the served model
with the example sentences, or with yours. Precision and training time are
chosen for this machine and printed. Everything is stored in --demo_dir and made
once: files that exist are reused, and interrupted training resumes. Also prints
the call to bert_tf.finetune and the commands for the server and the client.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.experiments.demo import data as demo_data
from bert_tf.experiments.demo import serving
from bert_tf.experiments.demo.run import STATE, DemoRun, make_plan, train_demo
from bert_tf.utils import names
from bert_tf.utils.extras import SERVER, require_packages
from bert_tf.utils.settings import UserSettings, flags_of, option
from bert_tf.utils.subprocesses import display_path


@dataclasses.dataclass(frozen=True)
class DemoSettings(UserSettings):
    """Directory of the demo, and how to train its model."""

    GROUP: ClassVar[str] = "Training"

    demo_dir: str = option("demo", "Directory for all files of the demo.", group="What to do")
    precision: str = option(
        "auto",
        "Data type of the computation in training. auto: mixed_bfloat16 if the CPU computes in it, otherwise "
        "float32.",
        choices=("auto", *names.PRECISIONS), group="Devices", essential=True,
    )
    num_train_epochs: float | None = option(
        None,
        "Number of passes over the training text. Default: 1 to 2, chosen to finish in a few minutes on this machine.",
        low=0, essential=True,
    )
    seed: int = option(1, "Random seed for example order and dropout.", low=0, essential=True)


SETTINGS = DemoSettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True
ENOUGH = 0.84  # held-out accuracy below this means that something is broken, not just bad luck
SENTENCES = {  # and what the answers must be
    "A warm, funny and beautifully acted film that I would gladly see again.": "positive",
    "A dull and lifeless film with a plot that makes no sense at all.": "negative",
}


def main(settings: DemoSettings, texts):
    """Fetches, trains, asks and reports, each only where that is still to do.

    Raises:
        ValueError: a step cannot be done, or its result is wrong; the message says which and why.
    """
    require_packages("`bert-tf demo`", *SERVER)
    folder = pathlib.Path(settings.demo_dir)
    precision = None if settings.precision == "auto" else settings.precision
    plan = make_plan(folder / STATE, {"precision": precision, "epochs": settings.num_train_epochs})
    run = DemoRun(folder, plan.precision, plan.epochs, settings.seed)
    new = demo_data.prepare_weights(run.weights)
    _tell("Weights", new, f"{run.weights} (all-MiniLM-L6-v2, 22 million parameters)")
    new = demo_data.prepare_text(run.data)
    _tell("Text", new, f"{run.data}: train.tsv, and test.tsv, which is held out")
    _tell("Training", train_demo(run), str(run.output))
    sentences = texts or list(SENTENCES)
    answers = serving.ask_models(run.models, sentences, run.folder / "server.log", display_path(sys.executable))
    report(run, answers)


def report(run: DemoRun, answers: Sequence[dict]):
    """Prints the held-out accuracy, the predictions, the output files and what to try next.

    Raises:
        ValueError: the accuracy is too low, or an answer to one of `SENTENCES` is wrong.
    """
    accuracy = read_scores(run.output / "eval_results.txt")["eval_accuracy"]
    print(f"\nHeld-out accuracy: {accuracy:.4f}, on snippets that were not trained on.\n")
    for answer in answers:
        print(f"  {answer['label']:>8}  {answer['probabilities'][answer['label']]:6.1%}  {answer['text']}")
    program, tensorboard = (
        display_path(pathlib.Path(sys.executable).with_name(name)) for name in ("bert-tf", "tensorboard")
    )
    print(f"""
Files in {run.folder}: weights/minilm (pretrained model), data (train.tsv, test.tsv), output (fine-tuned model and
eval_results.txt), {run.models.relative_to(run.folder)} (the model exported for TensorFlow Serving).

Try next
  Other sentences:     {program} demo "One of your own." "And another."
  Your own data:       {program} train classifier --help
  Serve the model:     {program} serve --model_base_path={run.models} --model_name=reviews
  Plot the loss:       {tensorboard} --logdir={run.output}
""")
    if accuracy < ENOUGH:
        raise ValueError(f"The held-out accuracy is too low: {accuracy:.4f}; expected at least {ENOUGH}.")
    if wrong := [a for a in answers if SENTENCES.get(a["text"], a["label"]) != a["label"]]:
        raise ValueError(f"Wrong predictions for the demo's own sentences: {wrong}.")


def read_scores(path: pathlib.Path) -> dict[str, float]:
    """Returns the values in eval_results.txt, which has lines of "key = value".

    Raises:
        ValueError: the file does not contain eval_accuracy.
    """
    pairs = (line.split(" = ") for line in path.read_text(encoding="utf-8").splitlines() if " = " in line)
    scores = {key: float(value) for key, value in pairs}
    if "eval_accuracy" not in scores:
        raise ValueError(f"{path} lacks eval_accuracy; it has {sorted(scores)}.")
    return scores


def _tell(what, new, where):
    print(f"{what} ({'created' if new else 'up to date'}): {where}", flush=True)
