"""One entrant of text_speed.py: a process that answers the texts it is told to, and says how long each of them took.

    python benchmarks/text_workers.py KIND MODEL THREADS

MODEL is the folder of an export's version, or an .onnx file beside which lies a tokenizer.json. Each line of standard
input is the path of a JSON list of texts; each line of the answer is JSON, the seconds and the probabilities of each.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from inference_workers import NAMES, onnxruntime_answer, openvino_answers

MAX_SEQ_LENGTH = 256


def predictor_answers(model, threads, callers):
    """`bert_tf.Predictor`, which computes with as many threads as there are cores, shared as THREADS says."""
    import bert_tf

    return [_label_answer(bert_tf.Predictor(model))] * callers


def lite_predictor_answers(model, threads, callers):
    """`bert_tf.lite.Predictor`, without TensorFlow; each caller needs one of its own."""
    import bert_tf.lite

    return [_label_answer(bert_tf.lite.Predictor(model, threads)) for _ in range(callers)]


def onnxruntime_answers(model, threads, callers):
    """`tokenizers` and ONNX Runtime."""
    return [_tokenized(model, onnxruntime_answer(model, threads))] * callers


def openvino_text_answers(model, threads, callers):
    """`tokenizers` and OpenVINO; behind the .onnx file stands :f32 or :bf16, in which it is computed."""
    return [_tokenized(model.partition(":")[0], run) for run in openvino_answers(model, threads, callers)]


KINDS = {
    "predictor": predictor_answers,
    "lite_predictor": lite_predictor_answers,
    "onnxruntime": onnxruntime_answers,
    "openvino": openvino_text_answers,
}


def _label_answer(predictor):
    return lambda texts: [[*each["probabilities"].values()] for each in predictor(texts)]


def _tokenized(model, run):
    """Returns a function of texts, which are padded to the longest of them."""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(os.path.dirname(model), "tokenizer.json"))
    tokenizer.enable_truncation(MAX_SEQ_LENGTH)
    tokenizer.enable_padding()

    def answer(texts):
        rows = tokenizer.encode_batch(texts)
        arrays = ([row.ids for row in rows], [row.attention_mask for row in rows], [row.type_ids for row in rows])
        return run({name: np.array(array) for name, array in zip(NAMES, arrays, strict=True)}).tolist()

    return answer


def main():
    kind, model, threads = sys.argv[1:]
    os.environ.update({"OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads})  # before a library is imported
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not be taken for an answer
    (answer,) = KINDS[kind](model, int(threads), 1)
    for line in sys.stdin:
        with open(line.strip(), encoding="utf-8") as file:
            texts = json.load(file)
        seconds, found = [], []
        for text in texts:
            start = time.perf_counter()
            found += answer([text])
            seconds.append(time.perf_counter() - start)
        print(json.dumps([seconds, found]), file=answers, flush=True)


if __name__ == "__main__":
    main()
