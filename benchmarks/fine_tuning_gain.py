"""What pretraining is worth: networks fine-tuned on few labels, from pretrained encoders and from random weights.

    python benchmarks/fine_tuning_gain.py small10,small45 sst2-tutorial/train.tsv sst2-tutorial/dev.tsv \\
        sst2-tutorial/test.tsv --num_examples=1000 --output_dir=out
    python benchmarks/fine_tuning_gain.py small45 eng.train eng.testa eng.testb --task=tags --num_examples=2000 \\
        --output_dir=out

Each start is fine-tuned by each of --learning_rates and with each of --seeds, is given the rate that is best on the
second file over the seeds, and is scored with that on the third. Random weights are those of the last encoder's shape.
For --task=texts there is a row of logistic regression on the words, too (scikit-learn's, its strength chosen so too).
The same command goes on where it was stopped.
"""

import argparse
import pathlib
import statistics

import fine_tuned

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)


def words_row(files):
    """Returns the row of logistic regression on TF-IDF of the words: its strength, and its scores."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rows = {split: [line.split("\t") for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line]
            for split, path in files.items()}  # fmt: skip
    texts, labels = ({split: [row[n] for row in found] for split, found in rows.items()} for n in (0, 1))

    def fitted(strength):
        vectorizer = TfidfVectorizer(token_pattern=r"\S+", binary=True)
        model = make_pipeline(vectorizer, LogisticRegression(C=strength, max_iter=1000))
        return model.fit(texts["train"], labels["train"])

    models = {strength: fitted(strength) for strength in STRENGTHS}
    dev = {strength: 100 * model.score(texts["dev"], labels["dev"]) for strength, model in models.items()}
    best = max(STRENGTHS, key=dev.get)
    return str(best), [dev[best]], [100 * models[best].score(texts["test"], labels["test"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pretrained", type=fine_tuned.comma_separated, help="folders of encoders")
    for split in ("train", "dev", "test"):
        parser.add_argument(split)
    parser.add_argument("--task", choices=tuple(fine_tuned.TASKS), default="texts")
    parser.add_argument("--output_dir", required=True)
    fine_tuned.add_arguments(parser, rates="1e-4,3e-4,1e-3", seeds="1,2,3,4,5", epochs="5")
    parser.add_argument("--train_batch_size", default="16")
    options = parser.parse_args()
    folder, task = pathlib.Path(options.output_dir).resolve(), fine_tuned.TASKS[options.task]
    files = {split: getattr(options, split) for split in ("train", "dev", "test")}
    trial = fine_tuned.trial_of(task, files, folder, options, [f"--train_batch_size={options.train_batch_size}"])
    shape = options.pretrained[-1]
    starts = {"random": [f"--bert_config_file={shape}/bert_config.json", f"--vocab_file={shape}/vocab.txt"]}
    starts |= {pathlib.Path(path).name: [f"--init_checkpoint={path}"] for path in options.pretrained}
    print(fine_tuned.header("Start"))
    if options.task == "texts":
        print(fine_tuned.shown(["words"], *words_row(trial.files)))
    means = {}
    for name, start in starts.items():
        rate, dev, test = trial.row(name, start)
        print(fine_tuned.shown([name], rate, dev, test), flush=True)
        means[name] = statistics.mean(test)
    for name in [*starts][1:]:
        print(f"{name} - random: {means[name] - means['random']:+.1f} points")


if __name__ == "__main__":
    main()
