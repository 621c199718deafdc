"""The speed of fine-tuning a BERT classifier with PyTorch and Transformers; prints a line of JSON for each batch.

    PYTHON_WITH_TORCH benchmarks/torch_fine_tuning.py BERT_CONFIG PRECISION STEPS BATCH.npz...

PRECISION is mixed_bfloat16 (autocast) or float32. A batch is a file of `peers.write_batches`. The model has random
weights, attention by sdpa, and is compiled by torch.compile for each shape; AdamW is fused on a GPU. A line holds the
seconds of the first step, which compiles, and of each of STEPS later ones. The Python needs torch and transformers.
"""

import json
import math
import pathlib
import sys
import time

import torch
import transformers
from peers import read_batches


def make_step(config, precision, batch):
    """Returns a function that makes a training step on a batch and returns its loss, a tensor."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = transformers.BertForSequenceClassification(config).train().to(device)
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **fused)
    compiled = torch.compile(model, dynamic=False)
    tensors = {name: torch.from_numpy(values.astype("int64")).to(device) for name, values in batch.items()}
    inputs = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    inputs = {name: tensors[ours] for name, ours in (*inputs.items(), ("labels", "label_ids"))}

    def step():
        with torch.autocast(device, torch.bfloat16, enabled=precision == "mixed_bfloat16"):
            loss = compiled(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def timed(step, times):
    """Returns the seconds of the first step and of each of `times` later ones."""
    begin = time.perf_counter()
    step().item()
    first = time.perf_counter() - begin
    step().item()
    begin = time.perf_counter()
    for _ in range(times):
        loss = step()
    assert math.isfinite(loss.item()), "the loss is not finite"  # waits for the device
    return first, (time.perf_counter() - begin) / times


def main():
    config_file, precision, steps, *files = sys.argv[1:]
    torch.set_float32_matmul_precision("high")
    sizes = json.loads(pathlib.Path(config_file).read_text(encoding="utf-8"))
    sizes["hidden_act"] = {"gelu_tanh": "gelu_pytorch_tanh"}.get(sizes["hidden_act"], sizes["hidden_act"])
    config = transformers.BertConfig(**sizes, attn_implementation="sdpa", num_labels=2)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    for file in files:
        (batch,) = read_batches(file)
        times = timed(make_step(config, precision, batch), int(steps))
        print(json.dumps({"times": times, "versions": versions}), flush=True)


if __name__ == "__main__":
    main()
