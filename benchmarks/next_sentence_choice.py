"""Which of four sentences comes next? Multiple choice on a text, ours beside torch's by the same recipe.

    python benchmarks/next_sentence_choice.py MODEL TRAIN_TEXT TEST_TEXT --output_dir=out [--torch=PYTHON_WITH_TORCH]

MODEL is a directory as Hugging Face writes it, and the texts are articles as in WikiText: a paragraph a line, and
headings as " = Title = ". A question is a sentence, the one that follows it in its paragraph, and three others of the
same article (--distractors=article) or of other articles (--distractors=anywhere), in random order: guessing is right
in one of four. What a question asks about and the right answer are in no other question, except as a wrong choice. The
files stay in --output_dir, and so does what was trained.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys

import scripts

from bert_tf.utils.files import read_text
from bert_tf.utils.sentence_splitting import split_sentences

HEADING = re.compile(r"^ ?=( ?)([^=].*[^=])\1= ?$")


def articles(path, words):
    """Returns the articles of a file, each a list of paragraphs, each a list of sentences.

    A sentence of other than 5 to `words` words is None.
    """
    found = []
    for line in read_text(path).split("\n"):
        if HEADING.match(line):
            found.append([])
        elif line.strip() and not line.strip().startswith("=") and found:
            found[-1].append(split_sentences([line]))
    return [[[s if 5 <= len(s.split()) <= words else None for s in each] for each in article] for article in found]


def questions(path, count, distractors, words, seed):
    """Returns `count` questions {"context", "choices", "label"}.

    Raises:
        ValueError: the text is too short for so many.
    """
    rng, found, taken = random.Random(seed), articles(path, words), set()
    places = [(a, p, s) for a, article in enumerate(found) for p, each in enumerate(article)
              for s in range(len(each) - 1) if each[s] and each[s + 1]]  # fmt: skip
    of_article = [[(a, p, s) for p, each in enumerate(article) for s, text in enumerate(each) if text]
                  for a, article in enumerate(found)]  # fmt: skip
    everywhere = [place for each in of_article for place in each]
    made = []
    for a, p, s in rng.sample(places, len(places)):
        pool = of_article[a] if distractors == "article" else everywhere
        others = [
            place
            for place in rng.sample(pool, min(len(pool), 40))
            if place[:2] != (a, p) and (distractors == "article") == (place[0] == a)
        ][:3]
        own = [(a, p, s), (a, p, s + 1)]
        if len(made) == count or len(others) < 3 or taken & {*own}:
            continue
        taken |= {*own}
        order = rng.sample([own[1], *others], 4)
        context, *choices = (found[a][p][s] for a, p, s in [own[0], *order])
        made.append({"context": context, "choices": choices, "label": order.index(own[1])})
    if len(made) < count:
        raise ValueError(f"{path} must have text for {count} questions; got for {len(made)}; ask for fewer.")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "train_text", "test_text"):
        parser.add_argument(name)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--torch", help="a Python with torch and transformers, to train theirs too")
    parser.add_argument("--distractors", choices=("article", "anywhere"), default="article")
    parser.add_argument("--questions", type=int, nargs=2, default=(2000, 500), help="to train on, and to score on")
    parser.add_argument("--words", type=int, default=30, help="of the longest sentence")
    for name, default in (("batch", 16), ("rate", 1e-4), ("epochs", 2.0), ("max_seq_length", 80), ("seed", 1)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    folder = pathlib.Path(options.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    texts, files = (options.train_text, options.test_text), (folder / "train.jsonl", folder / "test.jsonl")
    for number, (text, count, file) in enumerate(zip(texts, options.questions, files, strict=True)):
        rows = questions(text, count, options.distractors, options.words, number)
        file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    if options.torch:
        recipe = [options.batch, options.rate, options.epochs, options.max_seq_length, options.seed]
        script = pathlib.Path(__file__).with_name("torch_choice.py")
        words = [options.torch, script, options.model, *files, *recipe]
        subprocess.run([*map(str, words)], check=True, stdout=sys.stdout)
    scripts.run("-m", "bert_tf", "run_multiple_choice", f"--init_checkpoint={options.model}",
                f"--train_file={files[0]}", f"--eval_file={files[1]}", f"--output_dir={folder / 'ours'}", "--do_train",
                "--do_eval", f"--train_batch_size={options.batch}", f"--learning_rate={options.rate}",
                f"--num_train_epochs={options.epochs}", f"--max_seq_length={options.max_seq_length}",
                f"--seed={options.seed}", "--eval_batch_size=32")  # fmt: skip
    print(f"ours: accuracy {scripts.scores(folder / 'ours')['eval_accuracy']:.4f} of {options.questions[1]} questions")


if __name__ == "__main__":
    main()
