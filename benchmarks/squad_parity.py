"""SQuAD 1.1 by `train qa`, beside the torch scores that torch_squad.py kept for the same questions and recipe.

    python benchmarks/squad_parity.py --model=MINILM --squad_dir=FOLDER --output_dir=out

The folder holds train-v1.1.json and dev-v1.1.json. The same command goes on with a run that was interrupted.
"""

import json
import pathlib

import scripts
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "The encoder to start from.", required=True)
flags.DEFINE_string("squad_dir", None, "Where train-v1.1.json and dev-v1.1.json lie.", required=True)
flags.DEFINE_string("output_dir", None, "Where the run goes.", required=True)
KEPT = pathlib.Path(__file__).with_name("torch_squad_scores.json")


def first_questions(path, limit):
    """Returns a SQuAD file's content cut after so many questions."""
    content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:limit]
            limit -= len(paragraph["qas"])
        article["paragraphs"] = [paragraph for paragraph in article["paragraphs"] if paragraph["qas"]]
    content["data"] = [article for article in content["data"] if article["paragraphs"]]
    return content


def main(_):
    theirs = json.loads(KEPT.read_text(encoding="utf-8"))["squad-1.1"]
    out, squad = pathlib.Path(FLAGS.output_dir), pathlib.Path(FLAGS.squad_dir)
    out.mkdir(parents=True, exist_ok=True)
    train = out / f"train-{theirs['questions']}.json"
    train.write_text(json.dumps(first_questions(squad / "train-v1.1.json", theirs["questions"])), encoding="utf-8")
    dev = squad / "dev-v1.1.json"
    recipe = [f"--train_batch_size={theirs['batch']}", f"--learning_rate={theirs['rate']}", f"--seed={theirs['seed']}"]
    recipe += [f"--num_train_epochs={theirs['epochs']}", f"--precision=mixed_{theirs['precision']}"]
    lengths = [f"--max_seq_length={theirs['max_seq_length']}", f"--doc_stride={theirs['doc_stride']}"]
    actions = ["--do_train", f"--train_file={train}", "--do_predict", f"--predict_file={dev}"]
    files = [f"--init_checkpoint={FLAGS.model}", f"--output_dir={out / 'run'}"]
    scripts.run("-m", "bert_tf", "run_squad", *actions, *files, *recipe, *lengths, "--predict_batch_size=32")
    ours = scripts.scores(out / "run")
    for name in ("exact", "f1"):
        print(f"{name:6} ours {ours[f'eval_{name}']:.2f}  torch {theirs[name]:.2f}  "
              f"difference {ours[f'eval_{name}'] - theirs[name]:+.2f}")  # fmt: skip


if __name__ == "__main__":
    app.run(main)
