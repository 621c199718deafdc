"""CrossEncoders of sentence-transformers: makes small seeded models, or asks those in folders.

    PYTHON_WITH_TORCH tests/goldens/torch_cross_encoder.py make FOLDER VOCABULARY
    PYTHON_WITH_TORCH tests/goldens/torch_cross_encoder.py ask PAIRS DIRECTORY ...

`make` writes FOLDER/CASE, of each of CASES, as sentence-transformers saves it, and FOLDER/CASE-old with the activation
in config.json, as versions before 6 do. `ask` prints the scores of models for the pairs in a JSON file, as JSON.
"""

import json
import pathlib
import sys

import torch
import transformers
from make_goldens import randomized
from sentence_transformers import CrossEncoder
from torch_families import _DISENTANGLED, _MODERN, _model

TOKENIZERS = pathlib.Path(__file__).parent / "tokenizers"

_ODD = {"hidden_size": 21, "num_attention_heads": 3, "num_hidden_layers": 3, "intermediate_size": 17}
CASES = {  # case -> class, configuration, activation, the longest sequence
    "bert": ("BertForSequenceClassification", {}, torch.nn.Sigmoid(), 20),
    "bert-odd": ("BertForSequenceClassification", {**_ODD, "hidden_act": "gelu_new"}, torch.nn.Identity(), 13),
    "distilbert": ("DistilBertForSequenceClassification", {}, torch.nn.Identity(), 20),
    "electra": ("ElectraForSequenceClassification", {**_ODD, "embedding_size": 8}, torch.nn.Sigmoid(), 15),
    "modernbert": ("ModernBertForSequenceClassification", _MODERN, torch.nn.Sigmoid(), 40),
    "deberta": ("DebertaV2ForSequenceClassification", _DISENTANGLED, torch.nn.Identity(), 40),
}


def make(folder, vocabulary):
    for seed, (case, (name, changes, activation, longest)) in enumerate(CASES.items()):
        if (TOKENIZERS / case).is_dir():  # one of the family's own kind
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(TOKENIZERS / case), model_max_length=longest)
        else:
            tokenizer = transformers.BertTokenizerFast(vocabulary, model_max_length=longest)
        shape = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": 1}
        shape["max_position_embeddings"] = max(20, longest)
        model = randomized(_model(name, {**changes, **shape}), seed, torch.float32)
        plain = folder / f"{case}-old"
        model.save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        CrossEncoder(str(plain), activation_fn=activation, device="cpu").save_pretrained(str(folder / case))
        config = json.loads((plain / "config.json").read_text())
        kind = f"{type(activation).__module__}.{type(activation).__name__}"
        key = {"sentence_transformers": {"activation_fn": kind, "version": "5.1.0"}}
        old = {"sbert_ce_default_activation_function": kind}
        (plain / "config.json").write_text(json.dumps(config | (old if seed % 2 else key)))


def ask(pairs, directories):
    pairs = [tuple(pair) for pair in json.loads(pathlib.Path(pairs).read_text(encoding="utf-8"))]
    print(json.dumps([_scores(each, pairs) for each in directories]))


def _scores(directory, pairs):
    encoder = CrossEncoder(directory, device="cpu")
    if encoder.config.model_type == "distilbert":  # Transformers 4 refuses the segments that BERT's tokenizer gives
        encoder.tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return encoder.predict(pairs).tolist()


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[2]), sys.argv[3]) if sys.argv[1] == "make" else ask(sys.argv[2], sys.argv[3:])
