"""Tagging by `train tagger`, beside the torch scores that torch_ner.py kept for the same files, recipe and seeds.

    python benchmarks/ner_parity.py MODEL TRAIN DEV TEST --task=CoNLL-2003 --output_dir=out

Scores are those of whole entities on TEST, as conlleval counts them. With several seeds the difference of the means
stands beside its standard error. The same command goes on where it was stopped.
"""

import argparse
import json
import pathlib

import scripts

KEPT = pathlib.Path(__file__).with_name("torch_ner_scores.json")


def score(options, theirs, seed):
    """Returns our scores on the test file after training by the recipe of `theirs`: {metric: score}."""
    trained, tested = (pathlib.Path(options.output_dir, f"seed-{seed}{suffix}") for suffix in ("", "-test"))
    precision = {"bfloat16": "mixed_bfloat16"}.get(theirs["precision"], theirs["precision"])
    recipe = [f"--train_batch_size={theirs['batch']}", f"--learning_rate={theirs['rate']}", f"--seed={seed}",
              f"--num_train_epochs={theirs['epochs']}", f"--max_seq_length={theirs['max_seq_length']}",
              f"--precision={precision}"]  # fmt: skip
    program = ("-m", "bert_tf", "run_tagger", "--eval_batch_size=64", "--do_eval")
    scripts.run(*program, f"--init_checkpoint={options.model}", f"--output_dir={trained}", *recipe, "--do_train",
                f"--train_file={options.train}", f"--eval_file={options.dev}")  # fmt: skip
    scripts.run(*program, f"--init_checkpoint={trained}", f"--output_dir={tested}", f"--eval_file={options.test}")
    return {name.removeprefix("eval_"): value for name, value in scripts.scores(tested).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train", "dev", "test"):
        parser.add_argument(name)
    parser.add_argument("--task", required=True, help="a name in torch_ner_scores.json")
    parser.add_argument("--seeds", nargs="+", help="some of those that torch's scores are kept of; default: all")
    parser.add_argument("--output_dir", required=True)
    options = parser.parse_args()
    theirs = json.loads(KEPT.read_text(encoding="utf-8"))[options.task]
    seeds = options.seeds or list(theirs["seeds"])
    ours = {seed: score(options, theirs, seed) for seed in seeds}
    for name in ("precision", "recall", "f1"):
        a, b = [ours[seed][name] for seed in seeds], [theirs["seeds"][seed]["test"][name] for seed in seeds]
        print(f"{name}: ours {[round(x, 4) for x in a]}  torch {[round(x, 4) for x in b]}")
        if len(seeds) > 1:
            print(scripts.compare(name, a, b))


if __name__ == "__main__":
    main()
