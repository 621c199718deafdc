"""Makes a Hugging Face directory of distilbert-tagger's ONNX file, and writes its golden: what its own runtime tags.

    PYTHON_WITH_ONNXRUNTIME tests/goldens/onnx_distilbert_tagger.py MODEL WEIGHTS.npz SENTENCES.txt > GOLDEN

MODEL is the package's folder; WEIGHTS.npz its weights as float32 by their PyTorch names. The tags are edits of a
sentence's grammar, not entities. The runtime rounds weights and activations to 8 bits, so `float_tags`, torch's on the
same weights without the rounding of the activations, are what we must meet exactly, and `tags` nearly so.
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from transformers import DistilBertForTokenClassification

SHAPE = {"model_type": "distilbert", "vocab_size": 28996, "dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12}


def convert(folder: pathlib.Path, weights: pathlib.Path):
    """Writes what Hugging Face has of a model, beside the ONNX file."""
    labels = json.loads((folder / "tag_vocab.json").read_text(encoding="utf-8"))["tags"]
    pieces = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    save_file({name: np.ascontiguousarray(values) for name, values in np.load(weights).items()},
              folder / "model.safetensors", {"format": "pt"})  # fmt: skip
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in sorted(pieces, key=pieces.get)), "utf-8")
    config = SHAPE | {"id2label": {str(i): label for i, label in enumerate(labels)}}
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), "utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}', "utf-8")


def tags(folder: pathlib.Path, sentences: list[str]) -> dict:
    """Returns the ids of each sentence's pieces, and which label the runtime and torch give each of them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    session = onnxruntime.InferenceSession(str(folder / "tagger.onnx"), providers=["CPUExecutionProvider"])
    model = DistilBertForTokenClassification.from_pretrained(folder).eval()
    golden = {"sentences": sentences, "ids": [], "tags": [], "float_tags": []}
    for sentence in sentences:
        ids = np.array([tokenizer.encode(sentence).ids])
        logits = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
        with torch.inference_mode():
            exact = model(torch.from_numpy(ids)).logits.numpy()
        golden["ids"].append(ids[0].tolist())
        golden["tags"].append(logits[0].argmax(-1).tolist())
        golden["float_tags"].append(exact[0].argmax(-1).tolist())
    return golden


if __name__ == "__main__":
    package, converted, texts = map(pathlib.Path, sys.argv[1:])
    convert(package, converted)
    print(json.dumps(tags(package, texts.read_text(encoding="utf-8").splitlines()), ensure_ascii=False))
