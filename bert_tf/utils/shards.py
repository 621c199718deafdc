"""The names of the files that a job writes: one, or several shards."""

import glob
import os
import re

from absl import logging


def output_files(output_file: list[str], num_shards: int | None) -> list[str]:
    """Returns the paths to write: those given, or num_shards paths derived from the one given.

    Raises:
        ValueError: num_shards with several paths, a repeated path, or a directory.
    """
    for path in output_file:
        if os.path.isdir(path) or not os.path.basename(path):
            raise ValueError(f"`output_file` must be a file; got the directory {path}; name a file in it.")
    if num_shards and len(output_file) > 1:
        raise ValueError(f"`num_shards` requires a single `output_file`; got {len(output_file)}.")
    if len(set(output_file)) < len(output_file):
        raise ValueError(f"`output_file` must not repeat a file; got {','.join(output_file)}.")
    if not num_shards:
        return output_file
    stem, end = _split(output_file[0])
    return [f"{stem}-{number:05d}-of-{num_shards:05d}{end}" for number in range(num_shards)]


def warn_of_others(output_file: list[str], written: list[str]):
    """Warns if shards of an earlier run are next to those just written, because a glob would mix them."""
    stem, end = _split(output_file[0])
    others = set(glob.glob(f"{glob.escape(stem)}-[0-9]*-of-[0-9]*{glob.escape(end)}")) - set(written)
    if others and len(output_file) == 1:
        logging.warning("%d files of another run are in the same directory, such as %s.", len(others), min(others))


def report_name(output_file: list[str]) -> str:
    """Returns the report's path without its extension: train.tfrecord.gz -> train_report."""
    return _split(output_file[0])[0] + "_report"


def set_name(path: str) -> str:
    """Returns the common prefix of the files of one output: a/train-00003-of-00008.tfrecord.gz -> a/train."""
    return re.sub(r"-\d{5}-of-\d{5}$", "", _split(path)[0])


def _split(path):
    """records/train.tfrecord.gz -> records/train, .tfrecord.gz."""
    end = re.search(r"(\.\w+)?(\.gz)?$", os.path.basename(path))[0]
    return path[: len(path) - len(end)], end
