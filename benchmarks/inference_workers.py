"""One peer of inference_speed.py: a process that answers the batches it is told to and says how long each took.

    python benchmarks/inference_workers.py KIND MODEL THREADS

MODEL is the folder of an export's version, a Hugging Face directory, an .onnx file or, of the kind product, a dtype.
How it is told and answers: `peers.serve`.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from peers import keras_hub_backbone, serve

NAMES = ("input_ids", "input_mask", "segment_ids")
SIDE = 2048  # of the matrices whose product is the machine's best


def bert_tf_answer(model, threads):
    """An export of ours, run as our server runs it."""
    from bert_tf.serving.server.saved_model import SavedModel

    loaded = SavedModel(model)
    signature = loaded.signatures["ids"]
    fetches = [signature.outputs["probabilities"].tensor]

    def answer(batch):
        return loaded.run({signature.inputs[name].tensor: batch[name] for name in NAMES}, fetches)[0]

    return answer


def bert_tf_batched_answer(model, threads):
    """The same behind the queue of `bert-tf serve --enable_batching`, which cuts a request: each part in one thread."""
    from bert_tf.serving.server.batching import Batcher
    from bert_tf.serving.server.batching_limits import BatchingLimits
    from bert_tf.serving.server.request_context import RequestContext
    from bert_tf.serving.server.saved_model import SavedModel
    from bert_tf.serving.server.scheduling import Scheduler
    from bert_tf.serving.server.versions import direct

    loaded = SavedModel(model)
    signature = loaded.signatures["ids"]
    compute = Batcher(BatchingLimits(num_batch_threads=threads)).batch("model", direct(loaded, Scheduler()))

    def answer(batch):
        inputs = {name: batch[name] for name in NAMES}
        return compute(signature, inputs, ["probabilities"], RequestContext())["probabilities"]

    return answer


def bert_tf_litert_answer(model, threads):
    """A .tflite file of ours, as the server computes it under --prefer_tflite_model."""
    from bert_tf.serving.server.session_bundle import Bundle, session_config
    from bert_tf.serving.server.tflite_model import TfliteModel

    loaded = TfliteModel(model, Bundle(session_config=session_config(threads={"intra": threads})))
    return lambda batch: loaded.run({name: batch[name] for name in NAMES}, ["probabilities"])[0]


def torch_answer(model, threads):
    """Transformers on PyTorch; a directory whose name ends in bfloat16 is computed in that."""
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(threads)
    path, _, dtype = model.partition(":")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = BertForSequenceClassification.from_pretrained(path, dtype=getattr(torch, dtype)).eval().to(device)

    def answer(batch):
        ids, mask, segments = (torch.from_numpy(batch[name].astype("int64")).to(device) for name in NAMES)
        with torch.inference_mode():
            logits = model(input_ids=ids, attention_mask=mask, token_type_ids=segments).logits
        return torch.softmax(logits.float(), -1).cpu().numpy()

    return answer


def onnxruntime_answer(model, threads):
    """ONNX Runtime, whose threads do not spin while it is not its turn."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def answer(batch):
        return _softmax(session.run(None, {name: batch[name].astype("int64") for name in NAMES})[0])

    return answer


def openvino_answer(model, threads):
    """OpenVINO for one caller; an .onnx file behind which stands :bf16 is computed in that."""
    (answer,) = openvino_answers(model, threads, 1)
    return answer


def openvino_answers(model, threads, callers):
    """The same for several callers at a time: a function for each, with `threads` threads of its own."""
    import openvino

    path, _, precision = model.partition(":")
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads * callers, "NUM_STREAMS": callers}
    settings["INFERENCE_PRECISION_HINT"] = precision
    compiled = openvino.Core().compile_model(path, "CPU", settings)

    def make_answer(request):
        def answer(batch):
            inputs = {name: batch[name].astype("int64") for name in NAMES}
            return _softmax(request.infer(inputs, share_inputs=True)[0])  # as a compiled model that is called

        return answer

    return [make_answer(compiled.create_infer_request()) for _ in range(callers)]


def keras_hub_answer(model, threads):
    """KerasHub's BertBackbone with the same head; random weights cost the same."""
    import keras
    import tensorflow as tf

    backbone = keras_hub_backbone(model, "float32")
    scores = keras.layers.Dense(2, activation="softmax")(backbone.output["pooled_output"])
    network = keras.Model(backbone.input, scores)
    run = tf.function(lambda inputs: network(inputs, training=False), reduce_retracing=True)

    def answer(batch):
        return run({"token_ids": batch["input_ids"], "padding_mask": batch["input_mask"],
                    "segment_ids": batch["segment_ids"]}).numpy()  # fmt: skip

    return answer


def product_answer(dtype, threads):
    """A product of two square matrices: what the machine can do at best."""
    import tensorflow as tf

    matrix = tf.cast(tf.random.normal([SIDE, SIDE]), dtype)
    multiply = tf.function(lambda: tf.matmul(matrix, matrix)[0, 0])
    return lambda batch: tf.cast(multiply(), tf.float32).numpy()


def _softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _is_for_processors(version):
    return os.path.basename(os.path.dirname(version)).endswith("-cpu")


def main():
    kind, model, threads = sys.argv[1:]
    # As docs/guides/cpu_inference.md advises: a CPU export has shards for threads, which need not share an operation.
    of_operation = "1" if kind == "bert_tf_batched" or _is_for_processors(model) else threads
    variables = {"OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": of_operation, "TF_NUM_INTEROP_THREADS": threads}
    os.environ.update(variables)  # before a library is imported
    make = globals()[f"{kind}_answer"]

    def answer():
        run = make(model, int(threads))
        return lambda batch: run(batch).sum()

    serve(answer)


if __name__ == "__main__":
    main()
