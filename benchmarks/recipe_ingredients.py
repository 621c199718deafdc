"""What each ingredient of pretrain_small gives: its recipe, and the recipe with something else, at equal time.

    python benchmarks/recipe_ingredients.py wikitext2/train.raw.gz,gutenberg/ wikitext2/valid.raw.gz sst2-tutorial \\
        --minutes=5 --num_examples=1000 --teacher=minilm --output_dir=out

Each variant is pretrained by pretrain_small in --minutes, all in, and scored on the held-out text; then it is
fine-tuned on train.tsv of the third argument (text, tab, label) by each rate with each seed, and scored on test.tsv by
the rate that is best on dev.tsv. Losses can be compared where vocabulary, rows and share of masks are
alike. The same command goes on where it was stopped; --variants names some of them, so that several commands can share
the work. Times are of this machine: nothing else should run on it.
"""

import argparse
import pathlib

import fine_tuned
import scripts

from bert_tf.flags import recipes
from bert_tf.flags.pretrain_small import PRETRAIN_SMALL
from bert_tf.settings import Settings
from bert_tf.small.recipe import Recipe
from bert_tf.small.run import pretrain

# What differs from the recipe: its parts by name, of which the mappings are joined; and flags of pretrain_small.
VARIANTS = {
    "recipe": {},
    "word embeddings move": {"pretraining": {"embedding_lr_factor": 1.0}},
    "word embeddings move slowly": {"pretraining": {"embedding_lr_factor": 0.1}},
    "word embeddings begin at random": {"pretraining": {"start_embeddings": "random", "embedding_lr_factor": 1.0}},
    "positions begin at random": {"pretraining": {"start_positions": "random"}},
    "norms last": {"config": {"norm_first": False}},
    "dropout of 0.1": {"pretraining": {"dropout_prob": 0.1}},
    "15 % masked": {"pretraining": {"masked_lm_prob": 0.15}},
    "rows of 128": {"phases": ((128, 1.0, 16),)},
    "batch grows": {"phases": ((32, 0.3, 16), (32, 0.3, 32), (32, 0.4, 64))},
    "linear schedule": {"pretraining": {"schedule": "linear"}},
    "no mean of the weights": {"pretraining": {"average_weights": 0.0}},
    "vocabulary of 8,000": {"flags": {"vocab_size": 8000}},
    "classifiers read [CLS]": {"config": {"classifier_pooling": "cls"}},
    "two layers": {"config": {"num_hidden_layers": 2}},
    "replaced tokens (ELECTRA)": {"pretraining": {"objective": "electra", "embedding_lr_factor": 1.0}},
    "taught by --teacher": {"recipe": recipes.SMALL_TAUGHT, "teacher": True},
}


def recipe_of(changes) -> Recipe:
    """Returns the recipe of a variant."""
    values = dict(changes.get("recipe", recipes.SMALL))
    for name in ("config", "pretraining"):
        if name in changes:
            values[name] = {**values[name], **changes[name]}
    return Recipe.of({**values, "phases": changes.get("phases", values["phases"])})


def settings_of(options, changes, folder) -> Settings:
    """Returns the flags of pretrain_small."""
    given = {"input_file": options.texts, "eval_file": options.held_out, "output_dir": str(folder)}
    given |= {"minutes": options.minutes, "precision": options.precision, **changes.get("flags", {})}
    given |= {"teacher": options.teacher} if changes.get("teacher") else {}
    return Settings({flag.name: flag.default for flag in PRETRAIN_SMALL} | given, given)


def main():
    options, folder = _options()
    files = {split: f"{options.task}/{split}.tsv" for split in ("train", "dev", "test")}
    task = fine_tuned.TASKS["texts"]
    print(fine_tuned.header("Recipe", "Steps", "Held-out loss"))
    for name in options.variants:
        out, changes = folder / name.replace(" ", "_"), VARIANTS[name]
        pretrain(settings_of(options, changes, out), recipe_of(changes))
        found = scripts.scores(out)
        trial = fine_tuned.trial_of(task, files, folder, options, ["--train_batch_size=16"])
        rate, dev, test = trial.row(out.name, [f"--init_checkpoint={out}"])
        cells = [name, f"{found['global_step']:.0f}", f"{found.get('masked_lm_loss', found['loss']):.3f}"]
        print(fine_tuned.shown(cells, rate, dev, test), flush=True)


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=fine_tuned.comma_separated, help="files and folders, with commas between them")
    parser.add_argument("held_out", type=fine_tuned.comma_separated, help="text to score on")
    parser.add_argument("task", help="a folder with train.tsv, dev.tsv and test.tsv")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--teacher", help="a model's folder")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--variants", type=fine_tuned.comma_separated, default=[*VARIANTS])
    fine_tuned.add_arguments(parser, rates="3e-5,1e-4,3e-4", seeds="1,2,3", epochs="5")
    options = parser.parse_args()
    if not options.teacher:
        options.variants = [name for name in options.variants if not VARIANTS[name].get("teacher")]
    return options, pathlib.Path(options.output_dir).resolve()


if __name__ == "__main__":
    main()
