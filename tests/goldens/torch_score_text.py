"""Writes the log-probabilities of pieces as torch Transformers has them: each masked in turn, or given those before it.

    PYTHON_WITH_TORCH tests/goldens/torch_score_text.py make FOLDER
    PYTHON_WITH_TORCH tests/goldens/torch_score_text.py score MODEL_DIRECTORY VOCAB.txt TEXTS.txt OUT.json

`make` writes FOLDER/score_text.json, {case: [{"ids": [P], "log_probabilities": [P]} ...]}, for models of FOLDER whose
[CLS], [SEP] and [MASK] are 2, 3 and 4, computed in float64. `score` writes such a list for texts, one a line, of a
vocabulary whose letter case counts.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForMaskedLM, BertLMHeadModel, BertTokenizer

CLS, SEP, MASK = 2, 3, 4
LENGTHS = (1, 12, 5, 14, 2, 5)
CASES = {  # name -> the model's folder, and whether it is read left to right
    "bert": ("pretraining", False),
    "electra": ("families/electra-generator", False),
    "left_to_right": ("pretraining", True),
}


def masked(model, row: list[int], mask: int) -> torch.Tensor:
    """Returns the log-probability of all pieces of a row but the first and the last, each in a copy that masks it."""
    ids, places = torch.tensor(row), torch.arange(1, len(row) - 1)
    copies = ids.repeat(len(places), 1)
    copies[torch.arange(len(places)), places] = mask
    with torch.inference_mode():
        logits = model(input_ids=copies).logits[torch.arange(len(places)), places]
    return logits.log_softmax(-1).gather(1, ids[places, None])[:, 0]


def left_to_right(model, row: list[int]) -> torch.Tensor:
    """Returns the log-probability of the same pieces, given those before each."""
    ids = torch.tensor(row)
    with torch.inference_mode():
        logits = model(input_ids=ids[None]).logits[0]
    return logits[:-2].log_softmax(-1).gather(1, ids[1:-1, None])[:, 0]


def make(folder: pathlib.Path):
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randint(5, 200, [length], generator=generator).tolist() for length in LENGTHS]
    found = {}
    for case, (name, is_decoder) in CASES.items():
        kind, more = (BertLMHeadModel, {"is_decoder": True}) if is_decoder else (AutoModelForMaskedLM, {})
        model = kind.from_pretrained(folder / name, attn_implementation="eager", dtype=torch.float64, **more).eval()
        whole = [[CLS, *ids, SEP] for ids in rows]
        values = [left_to_right(model, row) if is_decoder else masked(model, row, MASK) for row in whole]
        found[case] = [{"ids": ids, "log_probabilities": each.tolist()} for ids, each in zip(rows, values, strict=True)]
    lines = (f"{json.dumps(case)}: [\n{_rows(each)}\n]" for case, each in found.items())
    (folder / "score_text.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def score(directory: str, vocab_file: str, texts_file: str, out: str):
    tokenizer = BertTokenizer(vocab_file, do_lower_case=False)
    model = AutoModelForMaskedLM.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).eval()
    rows = [tokenizer(text)["input_ids"] for text in pathlib.Path(texts_file).read_text(encoding="utf-8").splitlines()]
    values = [masked(model, row, tokenizer.mask_token_id).tolist() for row in rows]
    found = [{"ids": row[1:-1], "log_probabilities": each} for row, each in zip(rows, values, strict=True)]
    pathlib.Path(out).write_text(f"[\n{_rows(found)}\n]\n", encoding="utf-8")


def _rows(rows):
    rounded = ({**row, "log_probabilities": [round(p, 8) for p in row["log_probabilities"]]} for row in rows)
    return ",\n".join(map(json.dumps, rounded))


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"make": lambda folder: make(pathlib.Path(folder)), "score": score}[command](*arguments)
