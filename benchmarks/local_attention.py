"""Measures memory and time of local attention over lengths, compared with attention to the whole sequence.

    .venv/bin/python benchmarks/local_attention.py
    .venv/bin/python benchmarks/local_attention.py --lengths=512,2048 --repeats=5

The model has ModernBERT's layers in a small shape: every third layer attends to all tokens, the others to a window of
128. In the rows "full" every layer attends to all tokens. Each cell runs in a process of its own, one row of the given
length at a time: a training step of the masked-LM encoder, the same with recomputed activations, and an answer of the
fast CPU graph. Memory is the peak of the process above what it had before the first step.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

LAYERS, WIDTH, HEADS, WINDOW = 3, 64, 2, 128
KINDS = ("train", "rematerialized", "answer")


def measure(kind: str, attention: str, length: int, repeats: int) -> dict[str, float]:
    """Returns {"seconds", "mib"} of one step or answer: the fastest of `repeats`, and the peak memory."""
    import numpy as np
    import tensorflow as tf

    from bert_tf.export.cpu.encoder import FastEncoder
    from bert_tf.export.cpu.products import Floats
    from bert_tf.models.config import EncoderConfig
    from bert_tf.models.encoder import Encoder

    shape = {"vocab_size": 1000, "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 96}
    every = 3 if attention == "local" else 1
    numbers = {"num_hidden_layers": LAYERS, "local_attention": WINDOW, "global_attn_every_n_layers": every}
    config = EncoderConfig.from_dict({"model_type": "modernbert", **shape, **numbers})
    encoder = Encoder(config, gradient_checkpointing=kind == "rematerialized")
    encoder.build()
    fast = FastEncoder(encoder, Floats()) if kind == "answer" else None
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ("input_ids", "input_mask")}

    @tf.function(input_signature=[specs], autograph=False)
    def run(inputs):
        if fast:
            return fast(inputs)["pooled_output"]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(encoder(inputs, training=True)["sequence_output"] ** 2)
        gradients = tape.gradient(loss, [v.value for v in encoder.trainable_variables])
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(each)) for each in gradients if each is not None])

    def row(tokens):
        ids = np.random.default_rng(0).integers(0, 1000, (1, tokens)).astype(np.int32)
        return {"input_ids": ids, "input_mask": np.ones_like(ids)}

    run(row(16))
    before, times = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    for _ in range(repeats):
        begin = time.perf_counter()
        run(row(length)).numpy()
        times.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": min(times), "mib": peak / 1024}


def in_child(*arguments) -> dict[str, float]:
    """Returns `measure` of a process of its own."""
    command = [sys.executable, __file__, "--child", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192", help="Tokens of a row, comma-separated.")
    parser.add_argument("--repeats", type=int, default=3, help="Steps per cell; the fastest counts.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(*json.loads(given.child))))
        return
    print(f"{LAYERS} layers of width {WIDTH}, {HEADS} heads, window {WINDOW}; milliseconds and peak MiB, local / full")
    print(f"{'tokens':>7}" + "".join(f"{kind:>34}" for kind in KINDS))
    for length in map(int, given.lengths.split(",")):
        cells = []
        for kind in KINDS:
            local, full = (in_child(kind, attention, length, given.repeats) for attention in ("local", "full"))
            times = f"{1000 * local['seconds']:.0f} / {1000 * full['seconds']:.0f} ms"
            cells.append(f"{times}, {local['mib']:.0f} / {full['mib']:.0f} MiB")
        print(f"{length:>7}" + "".join(f"{cell:>34}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
