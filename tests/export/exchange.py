"""Exports a tiny classifier in one environment and asks it in another: what tools/versions.py starts in each.

    python -m tests.export.exchange write FOLDER      # the export, and what it answers here
    python -m tests.export.exchange read FOLDER ...   # prints {folder: the largest difference to that}
"""

import json
import pathlib
import sys

import numpy as np

from tests import tiny

TEXTS = [text for text, _ in tiny.texts(16)]


def write(folder: pathlib.Path):
    """Writes a trained model, its export, and the export's probabilities of `TEXTS`."""
    from bert_tf.export.trained_model import export_trained
    from tests.export import models

    models.write_trained(folder / "trained", "classification")
    export_trained(str(folder / "trained"), str(folder / "export"))
    (folder / "probabilities.json").write_text(json.dumps(ask(folder).tolist()), encoding="utf-8")


def ask(folder: pathlib.Path) -> np.ndarray:
    """Returns the probabilities of `TEXTS`, [texts, 2]."""
    import bert_tf

    found = bert_tf.Predictor(str(folder / "export"))(TEXTS)
    return np.array([list(each["probabilities"].values()) for each in found])


def difference(folder: pathlib.Path) -> float:
    """Returns the largest difference of a probability here to the one where the export was written."""
    before = json.loads((folder / "probabilities.json").read_text(encoding="utf-8"))
    return float(np.abs(ask(folder) - np.array(before)).max())


def main(action: str, *folders: str):
    """Does what is asked for; the last line of the output is JSON."""
    if action == "write":
        write(*map(pathlib.Path, folders))
    else:
        print(json.dumps({folder: difference(pathlib.Path(folder)) for folder in folders}))


if __name__ == "__main__":
    main(*sys.argv[1:])
