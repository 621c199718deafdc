"""Takes the weights out of an ONNX file that paddle2onnx made of an ERNIE with two span heads (PaddleNLP's UIE).

    PYTHON_WITH_ONNX tests/goldens/onnx_ernie.py MODEL.onnx OUT.npz

OUT holds them by the names that Hugging Face's ErnieForQuestionAnswering has, float32, kernels as torch has them.
Paddle counts its layers in the order in which they were made: of each block the query, key, value, output and the two
of the feed-forward layer; then the pooler, which the file lacks, since nothing reads it; then the heads of start, end.
"""

import sys

import numpy as np
import onnx
from onnx import numpy_helper

TABLES = ("word", "position", "token_type", "task_type")
LINEAR = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
          "intermediate.dense", "output.dense")  # fmt: skip
NORMS = ("attention.output.LayerNorm", "output.LayerNorm")


def names(layers):
    """Yields (Paddle's name, Hugging Face's name, whether to transpose)."""
    for i, table in enumerate(TABLES):
        yield f"embedding_{i}.w_0", f"ernie.embeddings.{table}_embeddings.weight", False
    norms = ["ernie.embeddings.LayerNorm"]
    for n in range(layers):
        block = f"ernie.encoder.layer.{n}"
        norms += [f"{block}.{norm}" for norm in NORMS]
        for i, part in enumerate(LINEAR):
            yield f"linear_{6 * n + i}.w_0", f"{block}.{part}.weight", True
            yield f"linear_{6 * n + i}.b_0", f"{block}.{part}.bias", False
    for i, norm in enumerate(norms):
        yield f"layer_norm_{i}.w_0", f"{norm}.weight", False
        yield f"layer_norm_{i}.b_0", f"{norm}.bias", False


def main(path, out):
    nodes = onnx.load(path).graph.node
    held = {node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in nodes if node.op_type == "Constant"}
    layers = sum(name.startswith("layer_norm_") for name in held) // 4
    found = {theirs: held[ours].T if turned else held[ours] for ours, theirs, turned in names(layers)}
    start = 6 * layers + 1
    for part, ending in (("weight", "w_0"), ("bias", "b_0")):
        both = [held[f"linear_{start + i}.{ending}"].reshape(-1) for i in range(2)]
        found[f"qa_outputs.{part}"] = np.stack(both) if part == "weight" else np.concatenate(both)
    np.savez(out, **{name: np.ascontiguousarray(value, np.float32) for name, value in found.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
