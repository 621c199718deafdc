"""Every folder that Transformers 4.57 and 5 write for every family and head: read as torch reads it, and back."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.loading import load_description
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.checkpoints.readers import open_checkpoint
from bert_tf.export.conversion.head_purpose import with_task
from bert_tf.export.conversion.leave_out import LeaveOut
from bert_tf.export.conversion.model_outputs import compute_outputs
from bert_tf.models import family_registry
from bert_tf.models.config import EncoderConfig
from bert_tf.models.config_key_checks import COMPUTED, READ, WITHOUT_EFFECT
from bert_tf.tasks.classification.foreign_models import problem_of
from bert_tf.tasks.classification.problems import PROBLEMS
from bert_tf.tokenization.tokenizer_config import ADDED, FOLLOWED, HARMLESS, ONLY
from tests import other_envs
from tests.harness import relative_error

SCRIPT = pathlib.Path(__file__).parents[1] / "goldens" / "transformers_folders.py"
PYTHONS = {"4.57": other_envs.torch_python, "5": other_envs.transformers_5_python}
TOLERANCE = 1e-5  # of the largest value, float32
# What the classes of Transformers return -> our head's outputs.
LOGITS = {"prediction_logits": "cls/predictions", "seq_relationship_logits": "cls/seq_relationship",
          "sop_logits": "cls/seq_relationship"}  # fmt: skip
OF_TEXT = ("seq_relationship_logits", "sop_logits")


def _run(version, *arguments):
    command = [PYTHONS[version](), "-B", str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1:]


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_every_key_is_followed_refused_or_known_to_change_nothing(version):
    keys = json.loads(_run(version, "keys")[0])
    assert keys["version"].startswith(version)
    fields = {name for name in EncoderConfig.__dataclass_fields__ if name != "extra"}
    for model_type, read in keys["configurations"].items():
        row = family_registry.family(model_type)
        own = fields.union(row.keys, row.switches.values(), row.fixed, row.restated)
        tables = [own, READ, COMPUTED, *WITHOUT_EFFECT.values()]
        assert {key: 1 for key in read} == {key: sum(key in table for table in tables) for key in read}, model_type
    tables = [FOLLOWED, ADDED, ONLY, *HARMLESS.values()]
    for name, read in keys["tokenizers"].items():
        assert {key: 1 for key in read} == {key: sum(key in table for table in tables) for key in read}, name
    assert keys["configurations"].keys() == family_registry.FAMILIES.keys() and len(keys["tokenizers"]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_all_folders_are_read_as_torch_reads_them_and_back(version, tmp_path):
    """A few minutes: one process of torch writes all folders, this one reads and writes them, another reads ours."""
    there, back = tmp_path / "there", tmp_path / "back"
    _run(version, "write", there)
    cases = sorted(path.stem for path in there.glob("*.npz"))
    assert len(cases) >= 160 and sum("added" in case for case in cases) == len(cases) / 2
    faults = []
    for case in cases:
        (back / case).mkdir(parents=True)
        try:
            found = _faults(there / case, np.load(there / f"{case}.npz"), back / case)
            faults += [f"{case}: {fault}" for fault in found]
        except ValueError as error:
            faults.append(f"{case}: {error}")
    assert not faults, f"{len(faults)}:\n" + "\n".join(faults)
    faults = json.loads(_run(version, "read", there, back)[-1])
    assert not faults, f"{len(faults)}:\n" + "\n".join(faults)


def _faults(folder, expected, back):
    """Reads a folder and writes it to `back`; yields what is not as torch has it."""
    description = load_description([str(folder)])
    checkpoint = open_checkpoint(folder)
    checkpoint.check_twins(list(checkpoint.names))
    arrays = {path: checkpoint.get(path) for path in checkpoint.names}
    yield from [f"unknown weight {name}" for name in checkpoint.unknown]
    yield from _of_ids(description.tokenizer, expected)
    yield from _of_outputs(folder, description, arrays, expected)
    model = ModelArrays(
        description.config, arrays, description.tokenizer, description.labels, source_dir=str(folder)
    )
    writers.write_model(str(back), "huggingface", with_task(model, "huggingface", LeaveOut(())))


def _of_ids(tokenizer, expected):
    texts, pair = expected["texts"].tolist(), expected["pair"].tolist()
    rows = [*(tokenizer([text], max_seq_length=60) for text in texts), tokenizer([pair[0]], [pair[1]], 60)]
    for n, row in enumerate(rows):
        length = int(row["input_mask"].numpy().sum())
        for name, theirs in (("input_ids", f"ids {n}"), ("segment_ids", f"types {n}")):
            ours = row[name].numpy()[0, :length].tolist()
            true = expected[theirs].tolist() if theirs in expected else ours  # a family may have no segments
            if ours != true:
                yield f"{theirs} {ours} and not {true}"


def _of_outputs(folder, description, arrays, expected):
    mask = expected["attention_mask"]
    segments = expected["token_type_ids"] if "token_type_ids" in expected else np.zeros_like(mask)
    inputs = {"input_ids": expected["input_ids"], "input_mask": mask, "segment_ids": segments}
    inputs = {name: value.astype(np.int32) for name, value in inputs.items()}
    found = compute_outputs(description.config, arrays, inputs)
    (ending,) = EncoderConfig.load(folder).extra["architectures"]
    compared = 0
    for name in expected.files:
        if name.endswith(("output", "logits")):
            compared += 1
            ours, true = _ours(name, ending, found), expected[name]
            if ours.shape[:2] == mask.shape:
                ours, true = ours[mask > 0], true[mask > 0]
            if ours.shape != true.shape or relative_error(ours, true) > TOLERANCE:
                yield f"{name} of shape {ours.shape} is not torch's, of {true.shape}"
    assert compared > (0 if ending.endswith("Model") else 1)
    if "answers" in expected:
        problem = problem_of(description.config, description.labels)
        ours = PROBLEMS[problem].answers(_ours("logits", ending, found)[: len(expected["texts"])].astype(np.float64))
        if not np.allclose(ours.reshape(expected["answers"].shape), expected["answers"], rtol=0, atol=1e-5):
            yield f"answers {ours} and not {expected['answers']}"


def _ours(name, ending, found):
    """Returns our output that torch's class `ending` calls `name`.

    A head's outputs are those for what stands for a text, and behind them those for each token.
    """
    if name in found:
        return found[name]
    if name in ("start_logits", "end_logits"):
        return found["cls/squad logits"][int(name == "end_logits"), :, 1:]
    heads = [each for each in found if each.endswith(" logits")]
    logits = found[f"{LOGITS[name]} logits" if name in LOGITS else heads[0]]
    if ending.endswith("ForMultipleChoice"):
        return logits[:, 0, 0][np.newaxis]
    is_of_text = name in OF_TEXT or ending.endswith(("ForSequenceClassification", "ForNextSentencePrediction"))
    return logits[:, 0] if is_of_text else logits[:, 1:]
