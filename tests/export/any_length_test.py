"""A LiteRT graph for sequences of any length answers as graphs of fixed lengths and as the SavedModel."""

import os
from concurrent import futures

import numpy as np
import pytest

from bert_tf.export.export_options import ExportOptions
from bert_tf.export.litert import any_length, lengths, write_litert
from bert_tf.export.trained_model import load_trained_model
from bert_tf.lite.litert_file import MODEL_FILE
from bert_tf.lite.text_model import LitertTextModel
from bert_tf.utils.litert_runner import LitertRunner
from tests.export.litert_texts_test import NAMES, answers_of_saved_model, columns_of
from tests.export.models import LENGTH

FIXED = ("local", "disentangled", "biased")  # kinds of positions and attention whose graphs need fixed lengths
TOLERANCES = {"float32": 1e-5, "int8": 2e-2}


def write(trained, folder, name, dtype="float32", fixed=False):
    """Writes a file with a graph for any length, or with those of fixed lengths, and returns its path."""
    options = ExportOptions(dtype, "litert")
    served = load_trained_model(str(trained(name)), options=options).served(options)
    os.makedirs(folder)
    write_litert(str(folder), served, served.task.to_dict(), lengths(LENGTH) if fixed else any_length(served))
    return folder / MODEL_FILE


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in FIXED])
def test_every_task_answers_texts_as_the_saved_model_does(trained, exported, tmp_path, name):
    model = LitertTextModel(write(trained, tmp_path / "any", name))
    assert model.takes_any_length and model.lengths == [LENGTH]
    columns = columns_of(model.inputs, model.list_input)
    found, counts = model.answer(model.make_runner(1), columns)
    wanted, counted = answers_of_saved_model(exported(name), columns)
    assert found.keys() == wanted.keys() and counts == counted
    for output, values in wanted.items():
        assert found[output].dtype == values.dtype, output
        if values.dtype.kind == "f":
            np.testing.assert_allclose(found[output], values, atol=1e-5, err_msg=output)
        else:
            np.testing.assert_array_equal(found[output], values, err_msg=output)


def sequence(length, seed):
    rng = np.random.default_rng(seed)
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: rng.integers(low, high, (1, length)).astype(np.int32)
            for name, low, high in zip(names, (5, 1, 0), (20, 2, 2), strict=True)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_lengths_in_any_order_and_in_several_threads(trained, tmp_path, dtype):
    files = [write(trained, tmp_path / str(fixed), "questions", dtype, fixed).read_bytes() for fixed in (False, True)]
    runners = [[LitertRunner(data, 1) for _ in range(3)] for data in files]
    sizes = np.random.default_rng(0).permutation(np.tile(np.arange(1, LENGTH + 1), 6)).tolist()

    def differences(number):
        found = []
        for seed, size in enumerate(sizes, start=number):
            one, other = (each[number](sequence(size, seed)) for each in runners)
            assert one["start_logits"].shape == other["start_logits"].shape == (1, size)
            found.append(max(np.abs(one[name] - other[name]).max() for name in one))
        return max(found)

    with futures.ThreadPoolExecutor(3) as pool:
        assert max(pool.map(differences, range(3))) < TOLERANCES[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("name", FIXED)
def test_other_positions_need_fixed_lengths(trained, name):
    options = ExportOptions(export_for="litert")
    assert not any_length(load_trained_model(str(trained(name)), options=options).served(options))
