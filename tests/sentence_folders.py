"""Directories of sentence encoders, as small as can be: the files beside the weights."""

import json

OLD = "sentence_transformers.models."
NEW = "sentence_transformers.sentence_transformer.modules.x."
PLAIN = (("Transformer", ""), ("Pooling", "1_Pooling"))


def write(folder, kinds=PLAIN, package=OLD, **files):
    """Writes modules.json and other files, whose names have "__" for a slash and no .json."""
    described = [{"idx": n, "name": str(n), "type": f"{package}{kind}", "path": path}
                 for n, (kind, path) in enumerate(kinds)]  # fmt: skip
    for name, values in {"1_Pooling__config": {}, "modules": described, **files}.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    return str(folder)
