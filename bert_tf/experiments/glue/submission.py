"""The format of GLUE's server: one predictions file per test set, in one zip (gluebenchmark.com, FAQ)."""

import os
import zipfile
from collections.abc import Sequence

from absl import logging

from bert_tf.data.glue_tasks import LEADERBOARD, LEADERBOARD_HEADER
from bert_tf.utils.files import atomic_open

FILES = tuple(LEADERBOARD)


def write_submission(folders: Sequence[str | os.PathLike], path: str | os.PathLike) -> tuple[str, ...]:
    """Writes a GLUE submission: one zip file with the predictions found in `folders`, the `output_dir` of runs.

    The same files give the same zip, byte for byte. The server accepts only a complete zip.

    Args:
        folders: directories with the predictions of --do_predict for one or more GLUE tasks.
        path: path of the zip.

    Returns:
        The missing ones of `FILES`, which are also logged.

    Raises:
        ValueError: a file is in two directories or not in the format of `train classifier`, or there are no files.
        OSError: the zip cannot be written; an older one is unchanged.
    """
    paths = {}
    for folder in map(os.fspath, folders):
        for name in FILES:
            here = os.path.join(folder, name)
            if os.path.isfile(here):
                if name in paths:
                    raise ValueError(
                        f"A submission takes only one {name}; got {paths[name]} and {here}. Pass one of them."
                    )
                paths[name] = here
    if not paths:
        raise ValueError(
            f"No predictions to submit: none of {list(map(os.fspath, folders))} contains one of {', '.join(FILES)}. "
            "Write them with `train classifier`, `task_name` and `do_predict`."
        )
    contents = {name: _read_answers_file(paths[name]) for name in FILES if name in paths}
    with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    missing = tuple(name for name in FILES if name not in paths)
    if missing:
        logging.warning("%s has no %s: the GLUE server requires all files.", path, ", ".join(missing))
    return missing


def _read_answers_file(path):
    """Returns the file's text after checking its format."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line.count("\t") != 1 or (number == 1 and f"{line}\n" != LEADERBOARD_HEADER):
            raise ValueError(
                f"{path}:{number}: expected the columns index and prediction, separated by a tab; got {line[:80]!r}. "
                f"Write the file again with `do_predict`."
            )
    return text
