"""Writes what a pretrained model's own runtime makes of texts: torch Transformers, or onnxruntime for an ONNX file.

    PYTHON_WITH_BOTH tests/goldens/real_outputs.py JOB.json INPUTS.npz OUT.npz

INPUTS has input_ids, input_mask and segment_ids, int32 [B, S]. JOB is a JSON object:

    class, folder   a class of Transformers, and the directory that it loads; or
    onnx            a file
    inputs          what it calls our inputs, theirs -> ours; "position_ids" are 0, 1, 2, ...
    outputs         theirs -> the name in OUT
    heads           of linear layers on the encoder, the name in OUT -> the name in the file
    part            what stands before the names of the class's weights in pytorch_model.bin
    tokenizer       a tokenizer.json, a vocab.txt with "settings", or a module of Python with PaddleNLP's tokenizer
    texts           list of str, or of [str, str]

OUT holds the outputs, and the ids that the model's own tokenizer gives the texts, end to end: ids, int64 [n]; lengths.
"""

import importlib.util
import json
import pathlib
import sys

import numpy as np


def ids(tokenizer, settings, texts):
    """Returns a list of lists."""
    texts = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
    if tokenizer.endswith(".json"):
        from tokenizers import Tokenizer

        rows = Tokenizer.from_file(tokenizer)
        rows.no_padding()
        return [rows.encode(*text).ids for text in texts]
    if tokenizer.endswith(".py"):
        spec = importlib.util.spec_from_file_location("package", tokenizer)
        package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
        rows = package.MyTokenizer(package.Vocab_file)
        return [rows(text=[a], text_pair=[b])["input_ids"][0] for a, b in texts]
    from transformers import BertTokenizer

    rows = BertTokenizer(tokenizer, **settings)
    return [rows(*text)["input_ids"] for text in texts]


def from_torch(job, inputs):
    import torch
    import transformers

    kind, folder = getattr(transformers, job["class"]), pathlib.Path(job["folder"])
    if "part" in job:
        model = kind(transformers.AutoConfig.from_pretrained(folder))
        weights = torch.load(folder / "pytorch_model.bin", weights_only=True)
        own = {name.removeprefix(job["part"]): value for name, value in weights.items()}
        missing = model.load_state_dict(own, strict=False).missing_keys
        assert not missing, missing
    else:
        model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    rows = {theirs: torch.from_numpy(inputs[ours]).long() for theirs, ours in job["inputs"].items()}
    with torch.inference_mode():
        given = model.eval()(**rows)
        found = {ours: given[theirs] for theirs, ours in job["outputs"].items()}
        for ours, theirs in job.get("heads", {}).items():
            found[ours] = torch.nn.functional.linear(given[0], weights[f"{theirs}.weight"], weights[f"{theirs}.bias"])
    return {name: value.numpy() for name, value in found.items()}


def from_onnx(job, inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(job["onnx"], providers=["CPUExecutionProvider"])
    ids, lengths = inputs["input_ids"], inputs["input_mask"].sum(-1)
    arrays = {**inputs, "position_ids": np.broadcast_to(np.arange(ids.shape[1]), ids.shape)}
    found = {}
    for i, length in enumerate(lengths):  # alone: a model of 8 bits rounds by the range of all that it is given
        row = {theirs: arrays[ours][i : i + 1, :length].astype(np.int64) for theirs, ours in job["inputs"].items()}
        for name, value in zip(job["outputs"].values(), session.run(list(job["outputs"]), row), strict=True):
            places = (ids.shape[1],) if value.shape[1] == length else value.shape[1:2]
            every = found.setdefault(name, np.zeros((len(ids), *places, *value.shape[2:]), np.float32))
            every[i, : value.shape[1]] = value[0]
    return found


def main(job, inputs, out):
    job, inputs = json.loads(pathlib.Path(job).read_text(encoding="utf-8")), dict(np.load(inputs))
    outputs = (from_onnx if "onnx" in job else from_torch)(job, inputs)
    rows = ids(job["tokenizer"], job.get("settings", {}), job["texts"])
    np.savez(out, ids=np.concatenate(rows), lengths=[len(row) for row in rows], **outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
