"""Training examples a second, beside torch Transformers and KerasHub, on the same real sentences.

    python benchmarks/training_speed.py [--precision=mixed_bfloat16] [--rounds=5] [--peers=torch,keras_hub]
    make bench ARGS=--parts=training

Machines are noisy: the peers take turns, a few steps each, and what counts is the ratio of medians.

- padded: every peer trains on the very same batches, padded to --max_seq_length.
- as shipped: ours batches by length; a peer gets the same sentences in random order, padded to --max_seq_length.
- random: batches as they are drawn, padded to their longest; ours only.
- packed: with XLA, the batches that --pack_examples makes of the random ones.

`bert_tf_packed` is ours with --pack_examples. On a GPU, or with --use_xla, ours is compiled by XLA. On a GPU torch runs
there too.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np
from absl import app, flags
from peers import ROOT, Peer, gpus, machine, take_turns, write_batches

sys.path.insert(0, str(ROOT))
FLAGS = flags.FLAGS
flags.DEFINE_string("checkpoint", None, "A Hugging Face directory; default: MiniLM as the demo or the tests find it.")
flags.DEFINE_string("train_file", str(ROOT / "demo/data/train.tsv"), "Texts; default: the demo's.")
flags.DEFINE_bool("header", True, "As in run_classifier.")
flags.DEFINE_list("text_column", ["text"], "As in run_classifier.")
flags.DEFINE_string("label_column", "label", "As in run_classifier.")
flags.DEFINE_string("precision", "mixed_bfloat16", "float32 or mixed_bfloat16.")
flags.DEFINE_integer("max_seq_length", 64, "Longest row, and every row's length where batches are padded.")
flags.DEFINE_integer("batch_size", 32, "Examples a step.")
flags.DEFINE_integer("rounds", 5, "Turns that each peer has.")
flags.DEFINE_integer("steps", 6, "Steps in a turn.")
flags.DEFINE_bool("use_xla", bool(gpus()), "Compile ours with XLA.")
flags.DEFINE_list("peers", ["torch", "keras_hub"], "Whom to measure beside us.")
flags.DEFINE_string("torch_python", None, "An interpreter with torch and transformers; default: that of the tests.")
flags.DEFINE_string("results", None, "A file of JSON for every time, the ratios and what machine it was.")


def write_turns(folder):
    """Writes the files of every turn: {"padded": [...], ...}, and one of all shapes for warming up.

    Returns:
        the paths; {mode: real tokens of a step that counts, on average}; options of the packing peer's `StepConfig`.
    """
    from bert_tf.data.fixed_rows import SOURCES, fixed_layout
    from bert_tf.tasks.classification.encoding import tokenize_examples
    from bert_tf.tasks.classification.sources import make_source
    from bert_tf.tokenization.wordpiece import WordPieceTokenizer
    from bert_tf.training.batching import BatchSettings
    from bert_tf.training.run_config import RunConfig
    from bert_tf.training.step import StepConfig

    source = make_source(
        None, None, {"train": FLAGS.train_file}, header=FLAGS.header, text_columns=FLAGS.text_column,
        label_column=FLAGS.label_column,
    )  # fmt: skip
    texts = source.read(["train"])
    tokenizer = WordPieceTokenizer.from_directory(FLAGS.checkpoint)
    examples = tokenize_examples(
        tokenizer, texts["train"], FLAGS.max_seq_length, source.labels(texts)
    )
    files, tokens, options = {}, {}, {}
    steps = 50  # whole pools: the lengths of as-shipped batches are those of a real run
    run = RunConfig("", FLAGS.batch_size, steps, step=StepConfig(seed=1))
    modes = [("padded", False, None), ("ours", True, None), ("random", True, 1), ("packed", True, 1)]
    for mode, by_length, pool in modes[: 3 + FLAGS.use_xla]:
        batching = BatchSettings(FLAGS.max_seq_length, by_length, FLAGS.use_xla, pool, mode == "packed")
        batches = list(batching.training(examples, run)(0).as_numpy_iterator())
        sizes = [batch["input_ids"].shape[1] for batch in batches]
        if batching.packs:
            options = {"packed_shares": batching.packed_shares(examples, run)}
            sizes = [len(fixed_layout(b["input_mask"], 1, options["packed_shares"])[SOURCES]) for b in batches]
        turns = [list(dict(zip(sizes, batches, strict=True)).values())] + [
            [batches[(turn * FLAGS.steps + i) % steps] for i in range(FLAGS.steps)] for turn in range(FLAGS.rounds)
        ]
        tokens[mode] = np.mean([batch["input_mask"].sum() for turn in turns[1:] for batch in turn])
        files[mode] = [os.path.join(folder, f"{mode}{i}.npz") for i in range(len(turns))]
        for path, turn in zip(files[mode], turns, strict=True):
            write_batches(path, turn)
    return files, tokens, options


def report(seconds, memory, tokens):
    """Prints examples and real tokens a second, the ratios to ours, and the most memory of each process in bytes."""

    def rate(key):
        # The mean of as-shipped steps, whose work differs; the median of padded ones, whose work is the same.
        average = statistics.median if key[1] == "padded" else statistics.mean
        return FLAGS.batch_size / average(seconds[key])

    print(f"{FLAGS.precision}, batch {FLAGS.batch_size}, max_seq_length {FLAGS.max_seq_length}, {FLAGS.train_file}")
    for key in seconds:
        mode, real = "as shipped" if key[1] == "ours" else key[1], tokens[key[1]] / FLAGS.batch_size
        print(f"  {key[0]:14} {mode:10} {rate(key):8.1f} examples/s {rate(key) * real:8.0f} real tokens/s")
    for name in FLAGS.peers:
        padded, ours = (rate(("bert_tf", mode)) / rate((name, "padded")) for mode in ("padded", "ours"))
        print(f"  bert_tf / {name}: {padded:.2f} on identical padded batches, {ours:.2f} as shipped")
    print("  at most", ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in memory.items()))


def write(path, seconds, memory):
    """Writes every time, the most memory, and the ratios to the fastest peer: of all turns, the lowest, the highest."""
    turns = {key: np.reshape(each, [FLAGS.rounds, -1]).mean(1) for key, each in seconds.items()}
    fastest = min((turns[name, "padded"] for name in FLAGS.peers), key=np.median)
    ratios = {}
    for title, mode in (("training, padded", "padded"), ("training, as shipped", "ours")):
        ours = turns["bert_tf", mode]
        three = np.median(fastest) / np.median(ours), min(fastest / ours), max(fastest / ours)
        ratios[title] = list(map(float, three))
    times = {" ".join(key): list(map(float, each)) for key, each in seconds.items()}
    facts = machine() | {"memory": memory, "ratios": ratios, "seconds": times}
    pathlib.Path(path).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def minilm():
    """Returns MiniLM from where the demo or a test run has put it."""
    cache = os.path.expanduser("~/.cache/bert_tf_data/minilm")
    for path in (os.environ.get("BERT_TF_MINILM", ""), str(ROOT / "demo/weights/minilm"), cache):
        if os.path.isdir(path):
            return path
    raise SystemExit("There must be a checkpoint. Found none; run `make demo` first, or give --checkpoint.")


def main(_):
    if FLAGS.results and not FLAGS.peers:
        raise app.UsageError("--results must come with --peers, to which ours stands in ratio; got none.")
    FLAGS.checkpoint = FLAGS.checkpoint or minilm()
    os.environ.update({"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"})  # a peer does not spin while it waits
    pythons = {name: sys.executable for name in ("bert_tf", "bert_tf_packed", "keras_hub")}
    if "torch" in FLAGS.peers:
        from tests.other_envs import torch_python

        pythons["torch"] = FLAGS.torch_python or torch_python()
    with tempfile.TemporaryDirectory() as folder:
        files, tokens, packing = write_turns(folder)
        script, arguments = "training_workers.py", (FLAGS.checkpoint, FLAGS.precision)
        names = ["bert_tf", "bert_tf_packed", *FLAGS.peers]
        options = {name: json.dumps({"use_xla": FLAGS.use_xla}) for name in names}
        options["bert_tf_packed"] = json.dumps({"use_xla": FLAGS.use_xla, **packing})
        peers = {name: Peer(pythons[name], script, name, *arguments, options[name]) for name in names}
        modes = [("bert_tf", mode) for mode in ("padded", "ours", "random")]
        modes += [("bert_tf_packed", mode) for mode in (["packed"] if packing else ["padded", "ours", "random"])]
        modes += [(name, "padded") for name in FLAGS.peers]
        try:
            seconds = take_turns(peers, {key: files[key[1]] for key in modes}, FLAGS.rounds)
            memory = {name: peer.most_memory() for name, peer in peers.items()}
        finally:
            for peer in peers.values():
                peer.end()
    report(seconds, memory, tokens)
    if FLAGS.results:
        write(FLAGS.results, seconds, memory)


if __name__ == "__main__":
    app.run(main)
