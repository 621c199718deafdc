"""What GLUE's server wants: a file of answers for every test set, in one zip (gluebenchmark.com, FAQ)."""

import os
import zipfile
from collections.abc import Sequence

from absl import logging

from bert_tf.data.glue_tasks import LEADERBOARD, LEADERBOARD_HEADER
from bert_tf.utils.files import atomic_open

FILES = tuple(LEADERBOARD)


def write_submission(folders: Sequence[str | os.PathLike], path: str | os.PathLike) -> tuple[str, ...]:
    """Packs the files of answers that lie in `folders`, each a run's --output_dir, into one zip.

    The same files give the same zip, byte for byte. The server takes a zip only when it is whole.

    Args:
        folders: with --do_predict answered for a GLUE task each, or several.
        path: the zip.

    Returns:
        those of `FILES` that no folder has; the log names them too.

    Raises:
        ValueError: a file lies in two folders or is not as run_classifier writes it, or there is none at all.
        OSError: the zip cannot be written; an older one is unchanged.
    """
    paths = {}
    for folder in map(os.fspath, folders):
        for name in FILES:
            here = os.path.join(folder, name)
            if os.path.isfile(here):
                if name in paths:
                    raise ValueError(
                        f"A submission must have one {name}. Received {paths[name]} and {here}; name one of them."
                    )
                paths[name] = here
    if not paths:
        raise ValueError(
            f"A submission must have answers. Received {list(map(os.fspath, folders))}, none of which holds one of "
            f"{', '.join(FILES)}; write them by run_classifier with `task_name` and `do_predict`."
        )
    contents = {name: _checked(paths[name]) for name in FILES if name in paths}
    with atomic_open(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in contents.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    missing = tuple(name for name in FILES if name not in paths)
    if missing:
        logging.warning("%s has no %s: GLUE's server wants all files.", path, ", ".join(missing))
    return missing


def _checked(path):
    """Returns the file's text, after a look at its layout."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line.count("\t") != 1 or (number == 1 and f"{line}\n" != LEADERBOARD_HEADER):
            raise ValueError(
                f"{path}:{number}: a file of answers must have the columns index and prediction, with a tab between "
                f"them. Received: {line[:80]!r}; write it again with `do_predict`."
            )
    return text
