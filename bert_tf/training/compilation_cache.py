"""A directory for the programs that XLA compiled, so that later processes load them instead of compiling them again.

This module uses TensorFlow only if it is already imported, because it reads its environment when it first looks for
devices: in a command, as soon as it is imported.
"""

import hashlib
import json
import os
import pathlib
import re
import sys
from collections.abc import Iterator

from absl import logging

from bert_tf.utils import resources
from bert_tf.utils.counts import number_of
from bert_tf.utils.names import AUTO
from bert_tf.utils.package_versions import package_versions

MAX_BYTES = 4 * 2**30  # of all programs together
_NONE = "none"
_VARIABLE, _FLAG = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"


def use_compilation_cache(directory: str):
    """Makes XLA keep its programs in a directory for this TensorFlow and these devices, inside `directory`.

    This has no effect if TensorFlow has looked for devices before, or if TF_XLA_FLAGS already names a cache. Programs
    that were unused for longest are deleted if all together take more than `MAX_BYTES`.

    Args:
        directory: "auto" stands for bert_tf/xla in the user's cache directory, "none" for no cache.

    Raises:
        ValueError: the path has an apostrophe, which TF_XLA_FLAGS cannot represent.
        OSError: the directory cannot be created; "auto" only warns.
    """
    if directory == _NONE or _FLAG in os.environ.get(_VARIABLE, "") or has_found_devices():
        return
    root = pathlib.Path(default_directory() if directory == AUTO else directory).absolute()
    if "'" in str(root):
        raise ValueError(f"`compilation_cache_dir` must not have an apostrophe; got {root}.")
    own = root / _fingerprint()
    try:
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        _delete_oldest(root)
    except OSError as error:
        if directory != AUTO:
            raise
        logging.warning("XLA does not keep compiled programs: %s. Choose another `compilation_cache_dir`.", error)
        return
    os.environ[_VARIABLE] = f"{os.environ.get(_VARIABLE, '')} {_FLAG}='{own}'".strip()


def log_compilation_cache(directory: str):
    """Logs where XLA keeps its programs, or why it does not although `directory` is not "none"."""
    if named := re.search(rf"{_FLAG}=(['\"]?)(.*?)(\1)(\s|$)", os.environ.get(_VARIABLE, "")):
        count = len(list(pathlib.Path(named[2]).glob("xla_compile_cache_*")))
        logging.info(
            "XLA keeps compiled programs in %s, which has %s. Errors in loading them, about their text format and "
            "features of the machine, are harmless.", named[2], number_of(count, "program")
        )  # fmt: skip
    elif directory != _NONE:
        logging.info(
            "XLA does not keep compiled programs, because TensorFlow was used before in this process. Set the "
            "environment variable %s=%s=DIRECTORY before Python starts.",
            *(_VARIABLE, _FLAG),
        )


def default_directory() -> pathlib.Path:
    """Returns bert_tf/xla in the user's cache directory: $XDG_CACHE_HOME, otherwise ~/.cache."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "bert_tf" / "xla"


def has_found_devices() -> bool:
    """Returns whether TensorFlow has looked for devices in this process."""
    if "tensorflow" not in sys.modules:
        return False
    from bert_tf.utils import tensorflow_internals

    return tensorflow_internals.knows_devices()


def _fingerprint():
    """Returns the name of the directory for programs that run with this TensorFlow on these devices."""
    devices = [resources.name(), sorted(resources.instruction_sets()), resources.nvidia_gpus()]
    digest = hashlib.sha256(json.dumps(devices).encode()).hexdigest()
    return f"{package_versions(['tensorflow']).get('tensorflow', 'unknown')}-{digest[:16]}"


def _delete_oldest(root):
    """Deletes the programs that were unused for longest, until the others take at most `MAX_BYTES`."""
    taken = 0
    for _, size, path in sorted(_programs(root), reverse=True):
        taken += size
        if taken > MAX_BYTES:
            path.unlink(missing_ok=True)  # another process may have deleted it


def _programs(root) -> Iterator[tuple[float, int, pathlib.Path]]:
    """Yields (time of the last use, size, path) of each program."""
    for path in root.glob("*/xla_compile_cache_*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process has deleted it
            continue
        yield max(status.st_atime, status.st_mtime), status.st_size, path
