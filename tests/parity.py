"""Goldens: what torch gave for seeded models is made once more, or held against what we compute."""

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from safetensors.numpy import load_file

from tests import other_envs

GOLDENS = pathlib.Path(__file__).parent / "goldens"


def run_torch(script: str | os.PathLike, *arguments, python: str | None = None) -> str:
    """Runs a script, of `goldens/` by default, where torch is; returns what it prints, fails with what it says.

    Args:
        script, arguments: what is run.
        python: None: that of `torch_python`.
    """
    # -B: the folder of the script stays free of what Python would keep beside it.
    command = [python or other_envs.torch_python(), "-B", GOLDENS / script, *arguments]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def check_same(folder: pathlib.Path, files: Iterable[str], atol: float = 1e-7):
    """Asserts that what torch made below a folder, files of arrays, is what is committed below `goldens/`."""
    for file in files:
        new, old = _without_padding(load_file(folder / file)), _without_padding(load_file(GOLDENS / file))
        assert new.keys() == old.keys()
        for key in old:
            np.testing.assert_allclose(new[key], old[key], rtol=1e-5, atol=atol, err_msg=f"{file}: {key}")


def _without_padding(arrays):
    """Returns arrays with zeros at positions of padding, which no model promises anything about."""
    mask, found = arrays.get("attention_mask"), dict(arrays)
    for key, value in arrays.items():
        axis = value.ndim - 3  # of the rows, before positions and what they have
        if mask is not None and value.shape == mask.shape:
            found[key] = value * mask
        elif mask is not None and axis in (0, 1) and value.shape[axis] == len(mask):
            found[key] = value * mask[:, : value.shape[axis + 1], np.newaxis].astype(value.dtype)
    return found


def check_gradients(
    found: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    theirs: Callable[[str], tuple[str, bool]],
    tolerance: float,
):
    """Asserts that all gradients are torch's, each but for a share of its largest value.

    Args:
        found: by the paths of our variables.
        expected: a golden, with `gradient/` before the names of torch's.
        theirs: from our path to torch's name, and whether the array is turned over there.
        tolerance: the share.
    """
    assert len(found) == sum(name.startswith("gradient/") for name in expected)
    for path, ours in found.items():
        name, turned = theirs(path)
        true = expected[f"gradient/{name}"]
        true = true.T if turned else true
        # Softmax does not see a key's bias: its gradient is zero but for rounding, as large as its kernel's is true.
        scale = np.abs(found[path.replace("key/bias", "key/kernel")] if path.endswith("key/bias") else true).max()
        assert scale > 1e-6, path
        assert np.abs(ours - true).max() < tolerance * scale, path
