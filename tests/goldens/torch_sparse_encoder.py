"""SparseEncoders of sentence-transformers: makes small seeded models, or asks those in folders.

    PYTHON_WITH_TORCH tests/goldens/torch_sparse_encoder.py make FOLDER VOCABULARY
    PYTHON_WITH_TORCH tests/goldens/torch_sparse_encoder.py encode TEXTS DIRECTORY ...
    PYTHON_WITH_TORCH tests/goldens/torch_sparse_encoder.py encode_query TEXTS DIRECTORY ...

`make` writes FOLDER/CASE, of each of CASES, as sentence-transformers saves it, and FOLDER/expected.json, {"texts":
TEXTS, case: their embeddings, [n, V]}. `encode` and `encode_query`, methods of SparseEncoder, print the embeddings that
models have of the texts in a JSON file, as JSON.
"""

import json
import pathlib
import sys

import transformers
from make_goldens import randomized
from sentence_transformers import SparseEncoder
from sentence_transformers.sparse_encoder.modules import SpladePooling, Transformer
from torch_families import _model

TEXTS = ["a warm film .", "the story of people and music , the story of people and music", "", "Good"]
_ONE = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 12, "max_position_embeddings": 20}
CASES = {  # case -> class, what it has beside `_ONE`, pooling, activation, the longest sequence
    "bert": ("BertForMaskedLM", {}, "max", "relu", 12),
    "distilbert": ("DistilBertForMaskedLM", {}, "sum", "log1p_relu", 20),
}


def make(folder, vocabulary):
    expected = {"texts": TEXTS}
    for seed, (case, (name, changes, pooling, activation, longest)) in enumerate(CASES.items()):
        tokenizer = transformers.BertTokenizerFast(vocabulary, model_max_length=longest)
        shape = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
        plain, path = folder / "plain" / case, folder / case
        randomized(_model(name, {**_ONE, **changes, **shape}), seed).save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling(pooling, activation)]
        SparseEncoder(modules=modules, device="cpu").save_pretrained(str(path))
        expected[case] = _embeddings(path, TEXTS)
    lines = {case: ",\n".join(map(json.dumps, each)) for case, each in expected.items()}
    text = ",\n".join(f'"{case}": [\n{rows}\n]' for case, rows in lines.items())
    (folder / "expected.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


def _embeddings(directory, texts, method="encode"):
    encoder = SparseEncoder(str(directory), device="cpu")
    if "distilbert" in str(directory):  # which takes none of BERT's segments
        encoder.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return [[round(value, 7) for value in row] for row in getattr(encoder, method)(texts).to_dense().tolist()]


def ask(method, texts, directories):
    texts = json.loads(pathlib.Path(texts).read_text(encoding="utf-8"))
    print(json.dumps([_embeddings(each, texts, method) for each in directories]))


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[2]), sys.argv[3]) if sys.argv[1] == "make" else ask(*sys.argv[1:3], sys.argv[3:])
