"""Tokens a second of the whole pretraining step, beside torch Transformers and KerasHub, on the same real batches.

    python benchmarks/pretraining_speed.py --input_file=train.tfrecord [--bert_config_file=config.json] \\
        [--batch_size=64] [--rounds=5] [--peers=torch,keras_hub]

A step is forward, backward, clipping by the global norm and AdamW, with dropout, of masked LM and next sentence; every
peer gathers the masked places before the product with the vocabulary. Machines are noisy: the peers take turns, a few
steps each, and what counts is the ratio of medians. Padding counts as tokens here, for it costs all the same.
"""

import json
import os
import statistics
import sys
import tempfile

from absl import app, flags
from peers import ROOT, Peer, take_turns, write_batches

sys.path.insert(0, str(ROOT))
FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Records of create_pretraining_data with sentence pairs, not packed.")
flags.DEFINE_string("bert_config_file", None, "bert_config.json; default: BERT-base.")
flags.DEFINE_integer("batch_size", 8, "Rows a step.")
flags.DEFINE_integer("max_seq_length", 128, "What the records were made with.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "What the records were made with.")
flags.DEFINE_string("precision", "mixed_bfloat16", "float32 or mixed_bfloat16.")
flags.DEFINE_integer("rounds", 5, "Turns that each peer has.")
flags.DEFINE_integer("steps", 6, "Steps in a turn.")
flags.DEFINE_list("peers", ["torch", "keras_hub"], "Whom to measure beside us.")
flags.DEFINE_string("torch_python", None, "Interpreter with torch and transformers; default: one that is made.")
flags.mark_flag_as_required("input_file")


def write_turns(folder):
    """Writes a file of --steps batches for every turn, and returns the paths."""
    from bert_tf.pretraining.batches import Records

    records = Records.of([FLAGS.input_file], FLAGS.max_seq_length, FLAGS.max_predictions_per_seq)
    batches = iter(records.batches(FLAGS.batch_size, seed=1))
    paths = [os.path.join(folder, f"{turn}.npz") for turn in range(FLAGS.rounds + 1)]
    for path in paths:
        write_batches(path, [next(batches) for _ in range(FLAGS.steps)])
    return paths


def write_config(folder):
    """Returns the path of --bert_config_file, or of BERT-base's that it writes."""
    if FLAGS.bert_config_file:
        return FLAGS.bert_config_file
    path = os.path.join(folder, "bert_config.json")
    with open(path, "w") as file:
        json.dump({"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"}, file)
    return path


def report(seconds):
    """Prints tokens a second and the ratios."""
    tokens = FLAGS.batch_size * FLAGS.max_seq_length
    rates = {name: tokens / statistics.median(times) for (name, _), times in seconds.items()}
    print(f"{FLAGS.precision}, batch {FLAGS.batch_size} x {FLAGS.max_seq_length}, {FLAGS.rounds} x {FLAGS.steps} steps")
    for name, rate in rates.items():
        print(f"  {name:10} {rate:8.0f} tokens/s")
    for name in FLAGS.peers:
        print(f"  bert_tf / {name}: {rates['bert_tf'] / rates[name]:.2f}")


def main(_):
    pythons = {"bert_tf": sys.executable, "keras_hub": sys.executable}
    if "torch" in FLAGS.peers:
        from tests.other_envs import torch_python

        pythons["torch"] = FLAGS.torch_python or torch_python()
    with tempfile.TemporaryDirectory() as folder:
        paths, config = write_turns(folder), write_config(folder)
        script = "pretraining_workers.py"
        peers = {name: Peer(pythons[name], script, name, config, FLAGS.precision) for name in ["bert_tf", *FLAGS.peers]}
        try:
            report(take_turns(peers, {(name, ""): paths for name in peers}, FLAGS.rounds))
        finally:
            for peer in peers.values():
                peer.end()


if __name__ == "__main__":
    app.run(main)
