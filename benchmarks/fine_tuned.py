"""What starts are worth to a task: each is fine-tuned by several rates with several seeds, and is given its best rate.

Tasks are rows of TASKS. Every run is made once, in a folder of its own, so that the same command goes on.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics

import scripts


@dataclasses.dataclass(frozen=True)
class Task:
    """How a task is trained and scored.

    Attributes:
        program: of bert-tf.
        flags: of it, for each run.
        metric: of its eval_results.txt.
        separator: what stands between two examples of its files.
    """

    program: str
    flags: tuple[str, ...]
    metric: str
    separator: str


TASKS = {
    "texts": Task(  # text, tab, label
        "run_classifier",
        ("--header=false", "--text_column=0", "--label_column=1", "--max_seq_length=64", "--eval_batch_size=64"),
        "eval_accuracy",
        "\n",
    ),
    "tags": Task("run_tagger", ("--max_seq_length=128", "--eval_batch_size=64"), "eval_f1", "\n\n"),
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """A task with its files, and how it is trained.

    Attributes:
        task: see there.
        files: {"train", "dev", "test": path}.
        folder: where the runs go.
        rates, seeds, epochs: texts, as flags have them.
        flags: more of the program.
    """

    task: Task
    files: dict[str, str]
    folder: pathlib.Path
    rates: list[str]
    seeds: list[str]
    epochs: str
    flags: tuple[str, ...] = ()

    def row(self, name: str, start: list[str]) -> tuple[str, list[float], list[float]]:
        """Returns the best rate of a start, and the scores on dev and test with it, in percent, one for each seed.

        Args:
            name: of the start.
            start: flags that say where its weights come from.
        """
        dev = {rate: self._scores(name, start, rate, "dev") for rate in self.rates}
        best = max(self.rates, key=lambda rate: statistics.mean(dev[rate]))
        return best, dev[best], self._scores(name, start, best, "test")

    def _scores(self, name, start, rate, split):
        return [self._score(start, split, rate, s, self.folder / f"{name}-{rate}-{s}") for s in self.seeds]

    def _score(self, start, split, rate, seed, folder):
        results = folder / f"{split}.json"
        if not results.exists():
            flags = [*self.task.flags, *self.flags]
            trained = folder / "trained"
            if not trained.exists():
                flags += [*start, "--do_train", f"--train_file={self.files['train']}", f"--seed={seed}",
                          f"--learning_rate={rate}", f"--num_train_epochs={self.epochs}"]  # fmt: skip
            scripts.run("-m", "bert_tf", self.task.program, *flags, "--do_eval", f"--eval_file={self.files[split]}",
                        f"--output_dir={folder}")  # fmt: skip
            trained.touch()
            results.write_text(json.dumps(scripts.scores(folder)), encoding="utf-8")
        return 100 * json.loads(results.read_text(encoding="utf-8"))[self.task.metric]


def header(*names: str) -> str:
    """Returns the first two lines of a table whose others are `shown`; `names`: of what stands before the scores."""
    names = (*names, "Rate", "dev, %", "test, %", "Standard deviation")
    return f"| {' | '.join(names)} |\n{'|---' * len(names)}|"


def shown(cells: list[str], rate: str, dev: list[float], test: list[float]) -> str:
    """Returns a line of such a table; `cells` stand before the scores."""
    spread = f"{statistics.stdev(test):.2f}" if len(test) > 1 else ""
    return f"| {' | '.join([*cells, rate, f'{statistics.mean(dev):.2f}', f'{statistics.mean(test):.2f}', spread])} |"


def first_examples(path: str, number: int | None, separator: str, target: pathlib.Path) -> str:
    """Writes the first examples of a file to another, and returns its path."""
    examples = pathlib.Path(path).read_text(encoding="utf-8").split(separator)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(separator.join(examples[:number]) + separator, encoding="utf-8")
    return os.fspath(target)


def add_arguments(parser: argparse.ArgumentParser, rates: str, seeds: str, epochs: str, precision: str = "float32"):
    """Adds what says how each start is fine-tuned, with these defaults."""
    parser.add_argument("--learning_rates", type=comma_separated, default=comma_separated(rates))
    parser.add_argument("--seeds", type=comma_separated, default=comma_separated(seeds))
    parser.add_argument("--epochs", default=epochs)
    parser.add_argument("--num_examples", type=int, help="first ones of the training file; default: all")
    parser.add_argument("--precision", default=precision, help="of all training here")


def trial_of(task: Task, files: dict[str, str], folder: pathlib.Path, options, flags=()) -> Trial:
    """Returns the `Trial` of `add_arguments`' options."""
    suffix = pathlib.Path(files["train"]).suffix  # tells a table's format
    train = first_examples(files["train"], options.num_examples, task.separator, folder / f"train{suffix}")
    return Trial(task, {**files, "train": train}, folder / "fine_tuned", options.learning_rates, options.seeds,
                 options.epochs, (f"--precision={options.precision}", *flags))  # fmt: skip


def comma_separated(text: str) -> list[str]:
    return text.split(",")
