"""cuDNN's fused attention in a program that XLA compiles, by a custom call, against plain attention: needs a GPU.

    python benchmarks/fused_attention.py        # prints one line for each length, in JSON

Never run on a GPU yet: on a CPU, only the calls in the program before optimization have been checked. XLA replaces a
call of `__cudnn$fmhaSoftmax` with cuDNN's graph; what the call has to say is fixed by XLA's CudnnfMHABackendConfig, and
is the same as in JAX. There is no dropout of probabilities: cuDNN would draw masks of its own.

What a device has to show for this to become an option: at least 1.3 times as fast at 2,048 tokens, and differences
below 0.02 of the largest value.
"""

import functools
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

HEADS, WIDTH, TOKENS = 12, 64, 16_384  # of a head; of a batch
CASES = ((512, False), (2048, False), (8192, False), (2048, True))  # length, and whether rows have padding
_CALLS = 20
# (contracted, batch) axes of both factors in the layout [rows, heads, length, width].
_PRODUCTS = {"bmm1": (3, 3), "bmm2": (3, 2)}
_GRADIENTS = {
    "bmm1_grad_gemm1": (2, 2),
    "bmm1_grad_gemm2": (3, 2),
    "bmm2_grad_gemm1": (2, 2),
    "bmm2_grad_gemm2": (3, 3),
}


def _settings(shape, products, padded):
    """Returns the text that tells XLA what a call computes."""
    rows, heads, length, width = shape
    config = {
        "algorithm": {"algo_id": 0, "math_type": "TENSOR_OP_MATH", "is_cudnn_frontend": True, "workspace_size": 0},
        "fmha_scale": width**-0.5,
        "dropout_rate": 0.0,
        "intermediate_tensor_shape": {
            "element_type": "BF16",
            "dimensions": [rows, heads, length, length],
            "layout": {"minor_to_major": [3, 2, 1, 0]},
            "is_dynamic_dimension": [False] * 4,
        },
        "seed": 0,
        "is_flash_attention": True,
        "mask_type": "PADDING" if padded else "NO_MASK",
        "sliding_window_length": 0,
    }
    for name, (left, right) in products.items():
        config[f"{name}_dot_dimension_numbers"] = {
            "lhs_contracting_dimensions": [left],
            "rhs_contracting_dimensions": [right],
            "lhs_batch_dimensions": [0, 1],
            "rhs_batch_dimensions": [0, 1],
        }
    return json.dumps({"operation_queue_id": 0, "cudnn_fmha_backend_config": config})


def fused(query, key, value, lengths=None):
    """Returns attention's output for bfloat16 [rows, heads, length, width]; int32 lengths [rows] leave padding out."""
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_custom_call_v2

    shape, seen = query.shape, [] if lengths is None else [lengths, lengths]

    def call(target, operands, products, results):
        workspace = (tf.uint8, [0])
        dtypes, shapes = zip(*results, workspace, strict=True)
        return xla_custom_call_v2(
            [*operands, *seen], target, _settings(shape, products, bool(seen)), False, list(dtypes), list(shapes)
        )[: len(results)]

    @tf.custom_gradient
    def attention(query, key, value):
        like_query = (tf.bfloat16, shape)
        output, statistics = call(
            "__cudnn$fmhaSoftmax", (query, key, value), _PRODUCTS, (like_query, (tf.float32, shape[:3]))
        )

        def gradients(by_output):
            operands = query, key, value, statistics, by_output, output
            return call("__cudnn$fmhaSoftmaxBackward", operands, _GRADIENTS, [like_query] * 3)

        return output, gradients

    return attention(query, key, value)


def plain(query, key, value, lengths=None):
    """Returns the same by products of matrices, with the probabilities in float32."""
    scores = tf.matmul(query, key, transpose_b=True) * tf.cast(query.shape[-1] ** -0.5, query.dtype)
    if lengths is not None:
        seen = tf.sequence_mask(lengths, query.shape[2])[:, None, None]
        scores = tf.where(seen, scores, tf.constant(-1e9, scores.dtype))
    return tf.matmul(tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32)), query.dtype), value)


@functools.partial(tf.function, jit_compile=True, autograph=False)
def forward_and_backward(attention, inputs, by_output, lengths):
    """Returns attention's output and the gradients by query, key and value, without those of padding."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = attention(*inputs, lengths)
        if lengths is not None:
            real = tf.sequence_mask(lengths, output.shape[2])[:, None, :, None]
            output = tf.where(real, output, tf.zeros_like(output))
    return output, *tape.gradient(output, inputs, output_gradients=by_output)


def compare(length: int, padded: bool) -> list:
    """Returns length and padding, milliseconds plain and fused, their ratio, the largest difference, and an error."""
    shape = [TOKENS // length, HEADS, length, WIDTH]
    *inputs, by_output = (tf.cast(tf.random.stateless_normal(shape, (1, n)), tf.bfloat16) for n in range(4))
    lengths = tf.linspace(length // 2, length, shape[0]) if padded else None
    lengths = None if lengths is None else tf.cast(lengths, tf.int32)
    found = []
    try:
        for attention in (plain, fused):
            results = forward_and_backward(attention, inputs, by_output, lengths)
            begin = time.perf_counter()
            for _ in range(_CALLS):
                last = forward_and_backward(attention, inputs, by_output, lengths)
            last[0][0, 0, 0, 0].numpy()  # waits for the device
            found.append((1000 * (time.perf_counter() - begin) / _CALLS, results))
    except Exception as error:  # what fails is what this script is to find out
        message = f"{type(error).__name__}: {error}"[:500]
        return [length, padded, *(each[0] for each in found), *[""] * (4 - len(found)), message]
    (slow, expected), (fast, got) = found
    differences = [float(tf.reduce_max(abs(a - b)) / tf.reduce_max(abs(a))) for a, b in zip(expected, got, strict=True)]
    return [length, padded, slow, fast, slow / fast, max(differences), ""]


def main():
    if not tf.config.list_physical_devices("GPU"):
        sys.exit("cuDNN's fused attention needs a GPU; TensorFlow sees none.")
    for case in CASES:
        print(json.dumps(compare(*case)), flush=True)


if __name__ == "__main__":
    main()
