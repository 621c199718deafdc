"""The feature-based approach on named entities: BiLSTMs on six choices of frozen layers, beside fine-tuning.

    python benchmarks/feature_based_ner.py MODEL TRAIN DEV --output_dir=out

Prints the table of the BERT paper (Devlin et al. 2018, table 7) for MODEL: F1 of whole entities on DEV, and the minutes
of processor time that each row took, scoring included. The same command goes on where it was stopped.
"""

import argparse
import pathlib
import resource

import scripts

from bert_tf.utils.names import LAYERS

PAPER = dict(zip(LAYERS, (91.0, 95.6, 94.9, 95.9, 96.1, 95.5), strict=True))
FINE_TUNED = 96.4


def score(options, name, *more):
    """Trains and scores one model, and returns its F1 and the minutes."""
    folder, before = pathlib.Path(options.output_dir, name), _seconds()
    scripts.run("-m", "bert_tf", "run_tagger", f"--init_checkpoint={options.model}", f"--output_dir={folder}",
                "--do_train", "--do_eval", f"--train_file={options.train}", f"--eval_file={options.dev}",
                f"--num_train_epochs={options.epochs}", f"--seed={options.seed}", "--eval_batch_size=64",
                *more)  # fmt: skip
    return 100 * scripts.scores(folder)["eval_f1"], (_seconds() - before) / 60


def _seconds():
    """Returns the processor time of all that was run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name, f1, minutes, paper):
    print(f"{name:20} {f1:6.2f} {minutes:8.1f} {paper:12.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train", "dev"):
        parser.add_argument(name)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--epochs", default="1", help="of each row")
    parser.add_argument("--learning_rate", default="2e-3", help="of the BiLSTMs")
    parser.add_argument("--fine_tuning_rate", default="1e-4")
    parser.add_argument("--lstm_units", default="256")
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    print(f"{'layers':20} {'dev F1':>6} {'minutes':>8} {'paper, base':>12}")
    for layers in LAYERS:
        frozen = (f"--feature_layers={layers}", f"--lstm_units={options.lstm_units}")
        _row(layers, *score(options, layers, f"--learning_rate={options.learning_rate}", *frozen), PAPER[layers])
    fine_tuned = score(options, "fine_tuning", f"--learning_rate={options.fine_tuning_rate}")
    _row("fine-tuning", *fine_tuned, FINE_TUNED)


if __name__ == "__main__":
    main()
