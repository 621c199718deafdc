"""Real tokens a second of our pretraining step on packed rows, against padded rows made of the same texts.

    python benchmarks/packed_rows.py --texts=gutenberg/ --vocab_file=vocab.txt --bert_config_file=config.json \\
        [--data_flags=--short_seq_prob=0.5]

Both are made by `pretrain data` with the same flags but --packing. Real tokens are those of `input_mask`, so
that padding counts for nothing; the two take turns, and what counts is the ratio of their medians.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from absl import app, flags
from peers import ROOT, Peer, take_turns, write_batches

sys.path.insert(0, str(ROOT))
FLAGS = flags.FLAGS
flags.DEFINE_string("texts", None, "Files, a glob or a folder, as create_pretraining_data's --input_file.")
flags.DEFINE_string("vocab_file", None, "Of the word pieces.")
flags.DEFINE_string("bert_config_file", None, "bert_config.json.")
flags.DEFINE_list("data_flags", [], "More flags for create_pretraining_data, of both.")
flags.DEFINE_integer("batch_size", 64, "Rows a step.")
flags.DEFINE_string("precision", "mixed_bfloat16", "float32 or mixed_bfloat16.")
flags.DEFINE_integer("rounds", 5, "Turns of either.")
flags.DEFINE_integer("steps", 6, "Steps in a turn.")
flags.mark_flags_as_required(["texts", "vocab_file", "bert_config_file"])

LENGTH, PREDICTIONS = 128, 20


def make_records(folder, packed):
    """Writes records of --texts, and returns them as `Records`."""
    from bert_tf.pretraining.batches import Records

    path = os.path.join(folder, "packed" if packed else "padded") + ".tfrecord"
    command = [sys.executable, "-m", "bert_tf", "create_pretraining_data", f"--input_file={FLAGS.texts}"]
    command += [f"--vocab_file={FLAGS.vocab_file}", f"--output_file={path}", "--dupe_factor=1", *FLAGS.data_flags]
    command += [f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}", *(["--packing"] * packed)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return Records.of([path], LENGTH, PREDICTIONS)


def write_turns(folder, name, records):
    """Returns the paths of a file of batches for every turn, and the real tokens of every step that counts."""
    batches = iter(records.batches(FLAGS.batch_size, seed=1))
    paths, tokens = [], []
    for turn in range(FLAGS.rounds + 1):
        paths.append(os.path.join(folder, f"{name}{turn}.npz"))
        of_turn = [next(batches) for _ in range(FLAGS.steps)]
        write_batches(paths[-1], of_turn)
        tokens += [int(np.sum(batch["input_mask"])) for batch in of_turn] if turn else []
    return paths, tokens


def padding(records):
    """Returns the share of padding in all rows."""
    return 1 - np.mean([np.mean(batch["input_mask"]) for batch in records.in_order(FLAGS.batch_size)])


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        made = {"padded": make_records(folder, False), "packed": make_records(folder, True)}
        turns = {name: write_turns(folder, name, records) for name, records in made.items()}
        peers = {}
        for name, records in made.items():
            sentences = "nsp" if records.has_sentences else "none"
            arguments = ("bert_tf", FLAGS.bert_config_file, FLAGS.precision, sentences, name)
            peers[name] = Peer(sys.executable, "pretraining_workers.py", *arguments)
        try:
            seconds = take_turns(peers, {(name, ""): turns[name][0] for name in peers}, FLAGS.rounds)
        finally:
            for peer in peers.values():
                peer.end()
        rates = {name: statistics.mean(turns[name][1]) / statistics.median(seconds[name, ""]) for name in peers}
        for name, rate in rates.items():
            print(f"  {name}: {rate:8.0f} real tokens/s, {padding(made[name]):.1%} padding")
        print(f"  packed / padded: {rates['packed'] / rates['padded']:.2f}")


if __name__ == "__main__":
    app.run(main)
