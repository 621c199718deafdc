"""Memory and time of a training step with in-batch negatives, whole and in micro-batches (gradient caching).

    python benchmarks/gradient_caching.py [--pairs=64] [--tokens=64] [--parts=1,4,16]

The model has the shape of MiniLM (6 layers, 384 wide), with random weights. For each number of micro-batches, a process
of its own runs two steps and prints the peak memory above that before the first step, and the time of the second step.
"""

import argparse
import json
import resource
import subprocess
import sys
import time


def measure(pairs, tokens, parts):
    """Prints the peak memory in MB and the seconds of a step, as JSON."""
    import keras
    import numpy as np

    from bert_tf.models.config import EncoderConfig
    from bert_tf.tasks.embedding.task import EmbeddingTask
    from bert_tf.training.adamw import AdamW
    from bert_tf.training.schedules import WarmupLinearDecay
    from bert_tf.training.step import StepConfig, TrainStep

    keras.utils.set_random_seed(0)
    config = EncoderConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                           intermediate_size=1536)  # fmt: skip
    task = EmbeddingTask(config)
    model = task.build_model()
    optimizer = AdamW(WarmupLinearDecay(1e-5, 100, 10))
    optimizer.build(model.trainable_variables)
    step = TrainStep(task, model, optimizer, StepConfig(accumulation=parts))
    ids = np.random.default_rng(0).integers(1000, 30000, (pairs, 2, tokens)).astype(np.int32)
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids),
             "is_real_example": np.ones(pairs, np.float32)}  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        start = time.perf_counter()
        loss = float(step(batch)["loss"])
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    megabytes = round((peak - before) / 1024)
    print(json.dumps({"micro-batches": parts, "MB": megabytes, "s": round(seconds, 2), "loss": loss}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--parts", default="1,4,16")
    options = parser.parse_args()
    for parts in options.parts.split(","):
        if "," in options.parts:
            words = [f"--pairs={options.pairs}", f"--tokens={options.tokens}", f"--parts={parts}"]
            subprocess.run([sys.executable, __file__, *words], check=True)
        else:
            measure(options.pairs, options.tokens, int(parts))


if __name__ == "__main__":
    main()
