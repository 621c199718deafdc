"""Good files of the formats beside weights, which the tests of hostile files and of damage begin with."""

import json
import os
import pathlib
import shutil

import numpy as np
from safetensors.numpy import save

BPE_VOCAB, MERGES, WHOLE, PIECES = "vocab.json", "merges.txt", "tokenizer.json", "spiece.model"
PRESET_TOKENIZER, PRESET_WEIGHTS = os.path.join("preset", "tokenizer.json"), "model.weights.h5"
ADAPTER_CONFIG, ADAPTERS, MODULES = "adapter_config.json", "adapter_model.safetensors", "modules.json"
GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "tokenizers"
_MODULE = "base_model.model.bert.encoder.layer.0.attention.self"


def byte_bpe(folder):
    for name in (BPE_VOCAB, MERGES):
        shutil.copyfile(GOLDENS / "byte_bpe" / name, folder / name)


def whole(folder):
    """The same in tokenizer.json."""
    vocab = json.loads((GOLDENS / "byte_bpe" / BPE_VOCAB).read_text(encoding="utf-8"))
    merges = (GOLDENS / "byte_bpe" / MERGES).read_text(encoding="utf-8").splitlines()[1:]
    special = [{"id": vocab[name], "content": name, "special": True} for name in ("<s>", "</s>", "<mask>")]
    values = {"version": "1.0", "added_tokens": special, "normalizer": None}
    values |= {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}}
    values |= {"model": {"type": "BPE", "vocab": vocab, "merges": merges}}
    (folder / WHOLE).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def pieces(folder):
    shutil.copyfile(GOLDENS / "unigram" / PIECES, folder / PIECES)


def preset(folder):
    """A KerasHub preset's config.json; in the folder `preset` what describes the tokenizer."""
    config = {"vocabulary_size": 24, "num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
    backbone = {"config": config | {"dropout": 0.1, "max_sequence_length": 32, "num_segments": 2}}
    tokenizer = {"config": {"config_file": "tokenizer.json", "vocabulary": None, "lowercase": True}}
    (folder / "preset").mkdir(exist_ok=True)
    for name, kind, values in (("config.json", "Backbone", backbone), (PRESET_TOKENIZER, "Tokenizer", tokenizer)):
        values |= {"class_name": f"Bert{kind}", "registered_name": f"keras_hub>Bert{kind}", "module": "keras_hub"}
        (folder / name).write_text(json.dumps(values, indent=1), encoding="utf-8")


def preset_tokenizer(folder):
    preset(folder)
    (folder / "preset" / "assets" / "tokenizer").mkdir(parents=True, exist_ok=True)
    (folder / "preset" / "assets" / "tokenizer" / "vocabulary.txt").touch()


def weights(folder):
    """Groups and arrays as Keras writes them, among them more than one node of symbols holds."""
    import h5py

    with h5py.File(folder / PRESET_WEIGHTS, "w") as file:
        for n in range(12):
            group = file.create_group(f"layers/dense_{n}" if n else "layers/dense").create_group("vars")
            group.attrs["name"] = f"dense_{n}"
            group["0"], group["1"] = np.full((3, 3), n, np.float32), np.full(3, n, np.float16)
        file["vars/0"] = np.int64(7)


def adapters(folder):
    """Of rank 2, for two kernels of 8 x 8."""
    values = {"peft_type": "LORA", "base_model_name_or_path": None, "r": 2, "lora_alpha": 4.0, "lora_dropout": 0.0}
    values |= {"target_modules": ["query", "value"], "modules_to_save": None, "bias": "none", "use_rslora": False}
    (folder / ADAPTER_CONFIG).write_text(json.dumps(values, indent=1), encoding="utf-8")
    shapes = {f"{_MODULE}.{part}.lora_{name}.weight": shape for part in ("query", "value")
              for name, shape in (("A", (2, 8)), ("B", (8, 2)))}  # fmt: skip
    (folder / ADAPTERS).write_bytes(save({name: np.ones(shape, np.float32) for name, shape in shapes.items()}))


def modules(folder):
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    values = [{"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
              for n, (path, kind) in enumerate(kinds)]  # fmt: skip
    (folder / MODULES).write_text(json.dumps(values, indent=1), encoding="utf-8")


# A file's name -> what writes it, and what must lie beside it.
BESIDE = {
    BPE_VOCAB: byte_bpe, MERGES: byte_bpe, PIECES: pieces, PRESET_TOKENIZER: preset_tokenizer,
    ADAPTER_CONFIG: adapters, ADAPTERS: adapters, MODULES: modules,
}  # fmt: skip
