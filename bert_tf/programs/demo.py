"""`make demo`: fine-tunes a pretrained BERT on film reviews, says how good it became, serves it and asks it.

Everything lies in one folder (--demo_dir) and is made once: what is there and unchanged is not fetched or trained
again, and training that was interrupted continues. Training, server and client are started as anybody would start them.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from bert_tf.demo import data as demo_data
from bert_tf.demo import serve as demo_serve
from bert_tf.demo.run import SCRIPT, Run, shown, train

ENOUGH = 0.84  # held-out accuracy below this means that something is broken, not that the dice fell badly
SENTENCES = {  # and what the answers must be
    "A warm, funny and beautifully acted film that I would gladly see again.": "positive",
    "A dull and lifeless film with a plot that makes no sense at all.": "negative",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns the exit status."""
    options = _parser().parse_args(arguments)
    run = Run(pathlib.Path(options.demo_dir), options.precision, options.num_train_epochs, options.seed)
    try:
        return demonstrate(run, options.sentences or list(SENTENCES))
    except ValueError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped. The same command continues where it was.", file=sys.stderr)
        return 130


def demonstrate(run: Run, sentences: Sequence[str]) -> int:
    """Fetches, trains, asks and reports, each only where it is not done already; returns the exit status.

    Raises:
        ValueError: a step cannot be done; the message says which and why.
    """
    _say("Weights", demo_data.prepare_weights(run.weights), f"{run.weights} (all-MiniLM-L6-v2, 22 million parameters)")
    _say("Text", demo_data.prepare_text(run.data), f"{run.data}: train.tsv, and test.tsv, which training never sees")
    trained = train(run)
    _say("Training", trained, str(run.output))
    answers = demo_serve.ask(run.models, sentences, run.folder / "server.log", shown(sys.executable))
    return report(run, answers)


def report(run: Run, answers: Sequence[dict]) -> int:
    """Prints the held-out accuracy, the answers, where it all lies and what to try next; returns the exit status."""
    accuracy = read_scores(run.output / "eval_results.txt")["eval_accuracy"]
    print(f"\nHeld-out accuracy: {accuracy:.4f}, on snippets that training did not see.\n")
    for answer in answers:
        print(f"  {answer['label']:>8}  {answer['probabilities'][answer['label']]:6.1%}  {answer['text']}")
    python = shown(sys.executable)
    print(f"""
In {run.folder}: weights/minilm (the pretrained model), data (train.tsv, test.tsv), output (the fine-tuned model and
eval_results.txt), {run.models.relative_to(run.folder)} (it again, as TensorFlow Serving takes it).

Try next
  other sentences:     {python} -m bert_tf demo "One of your own." "And another."
  data of your own:    {python} {shown(SCRIPT)} --helpfull
  serve it for good:   {python} -m bert_tf serve --model_base_path={run.models} --model_name=reviews
  how the loss fell:   {shown(pathlib.Path(sys.executable).with_name("tensorboard"))} --logdir={run.output}
""")
    if accuracy < ENOUGH:
        print(f"demo: the held-out accuracy must be at least {ENOUGH}. Received: {accuracy:.4f}.", file=sys.stderr)
        return 1
    if wrong := [a for a in answers if SENTENCES.get(a["text"], a["label"]) != a["label"]]:
        print(f"demo: the answers to its own sentences must be right. Received: {wrong}.", file=sys.stderr)
        return 1
    return 0


def read_scores(path: pathlib.Path) -> dict[str, float]:
    """Returns what eval_results.txt says, line by line "key = value".

    Raises:
        ValueError: the file says nothing of eval_accuracy.
    """
    pairs = (line.split(" = ") for line in path.read_text(encoding="utf-8").splitlines() if " = " in line)
    scores = {key: float(value) for key, value in pairs}
    if "eval_accuracy" not in scores:
        raise ValueError(f"{path} must give eval_accuracy. Received: {sorted(scores)}.")
    return scores


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sentences", nargs="*", help="what to ask the fine-tuned model about (default: two examples)")
    parser.add_argument("--demo_dir", default="demo", help="where everything is put (default: %(default)s)")
    parser.add_argument(
        "--precision",
        default="float32",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        help="of the arithmetic in training (default: %(default)s)",
    )
    parser.add_argument("--num_train_epochs", type=float, default=2, help="passes over the text (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the order and of dropout (default: %(default)s)")
    return parser


def _say(what, new, where):
    print(f"{what}: {'done' if new else 'there already, unchanged'}: {where}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
