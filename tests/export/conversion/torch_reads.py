"""Run by a Python with torch and Transformers: loads directories that we wrote, and says what they compute.

    PYTHON_WITH_TORCH torch_reads.py FOLDER

Each directory in FOLDER has a file given.json beside it: `texts`, a list of rows of one or two texts, or `ids` and
`segments`. To FOLDER/found.json goes, for each directory: the class, names that are missing or unexpected, the ids of
the texts, and each output as nested lists; and what the pipeline of that kind of model answers.
"""

import json
import pathlib
import sys

import torch
import transformers

PIPELINES = {
    "ForSequenceClassification": ("text-classification", {"top_k": None}),
    "ForTokenClassification": ("token-classification", {}),
    "ForMaskedLM": ("fill-mask", {"top_k": 3}),
    "ForQuestionAnswering": ("question-answering", {}),
}
LEFT_TO_RIGHT = ("LMHeadModel", "ForCausalLM")


def read(folder, given):
    config = json.loads((folder / "config.json").read_text())
    (name,) = config["architectures"]
    ending = next((end for end in PIPELINES if name.endswith(end)), None)
    other = "ForPreTraining" if "PreTraining" in name else "ForCausalLM" if name.endswith(LEFT_TO_RIGHT) else ""
    kind = getattr(transformers, f"AutoModel{ending or other}")
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    assert type(model).__name__ == name, (type(model).__name__, name)
    found = {"info": {key: sorted(map(str, value)) for key, value in info.items()}}
    if "texts" in given:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        inputs = tokenizer(*given["texts"], padding="max_length", max_length=given["length"], return_tensors="pt")
        if ending and "pipeline" in given:
            task, options = PIPELINES[ending]
            pipeline = transformers.pipeline(task, str(folder), device="cpu")
            found["pipeline"] = answers(pipeline, given["pipeline"], options)
    else:
        inputs = {"input_ids": torch.tensor(given["ids"])}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with torch.inference_mode():
        outputs = model.eval()(**inputs)
    found["ids"] = inputs["input_ids"].tolist()
    found["outputs"] = {key: value.tolist() for key, value in outputs.items() if isinstance(value, torch.Tensor)}
    found["labels"] = [model.config.id2label[n] for n in range(model.config.num_labels)]
    return found


def answers(pipeline, given, options):
    result = pipeline(**given) if isinstance(given, dict) else pipeline(given, **options)
    return json.loads(json.dumps(result, default=float))


def main(folder):
    found = {}
    for given in sorted(folder.glob("*/given.json")):
        found[given.parent.name] = read(given.parent / "model", json.loads(given.read_text()))
    (folder / "found.json").write_text(json.dumps(found))


main(pathlib.Path(sys.argv[1]))
