"""Creates pretraining records from text files on one machine, with memory use independent of the corpus size.

    text --tokenize--> documents --shuffle--> units --mask--> records --shuffle--> files

Both shuffles use the disk, as runs sorted by random keys (`external_sort`). The work in between is split into tasks
(`CorpusStages`), so any number of processes creates the same files, and an interrupted run resumes after the tasks that
it has finished.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import os
import shutil
import sys
from collections import Counter

from absl import logging

from bert_tf.pretraining.corpus.checks import check_made, check_text, check_written, warn_of_unknown_tokens
from bert_tf.pretraining.corpus.description import PACKAGES, describe_corpus, hash_sources, metadata_of_job
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.stages import BUCKET_BYTES, CorpusStages, run_directory
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.units import number_of_units
from bert_tf.utils.files import atomic_open, content_of, is_temporary, temporary_path
from bert_tf.utils.package_versions import package_versions
from bert_tf.utils.progress import Countdown
from bert_tf.utils.task_total import TaskTotal
from bert_tf.utils.text_blocks import read_blocks
from bert_tf.utils.work_folder import WorkFolder
from bert_tf.utils.workers import WorkerDied, Workers

_TASK_BYTES = 1 << 22  # of text, tokenized at a time
_COPIED_BYTES = 1 << 26
_MOST_RUNS = 512  # from which a range is read; more are merged first
_MERGED = 32  # runs at a time
_TOKENIZED = "tokenized.json"  # the first file of finished work


def create_pretraining_data(job: CorpusJob) -> Statistics:
    """Creates the record files and their descriptions, atomically.

    If it is interrupted, the tasks that it has finished stay on disk, and the same job resumes after them.

    Returns:
        The statistics of the text and the records.

    Raises:
        ValueError: the text or the options are not valid, or there is unfinished work of another job.
        OSError: a file cannot be written, for example because the disk is full.
    """
    for path in job.output_files:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    place, name = os.path.split(os.path.abspath(job.output_files[0]))
    path = os.path.join(job.work_dir or place, f".{name}.parts")
    remedy = f"To discard the unfinished work, remove the directory {path}."
    sources = hash_sources(job.paths)

    def is_part(name):  # of work that is counted as finished
        return not is_temporary(name) and os.path.exists(os.path.join(path, _TOKENIZED))

    with WorkFolder(path, _manifest(job, sources), is_part, remedy, is_private=True) as folder:
        try:
            return _create(job, folder.path, sources)
        except WorkerDied:
            raise
        except ValueError:  # of the text or the options: the next job is another one
            folder.discard()
            raise


def _manifest(job, sources):
    """Returns all that determines the records."""
    options, phrases = dataclasses.asdict(job.options), job.options.phrase_file
    return {
        "input_file": {name: sources[name] for name in ("files", "bytes", "sha256")},
        "input_format": {**Counter(job.formats), "sha256": hashlib.sha256("\n".join(job.formats).encode()).hexdigest()},
        "output_file": list(map(os.path.abspath, job.output_files)),
        **dataclasses.asdict(metadata_of_job(job)),
        "added_tokens": list(map(str, job.tables.added_tokens)),
        **options.pop("text"),
        **options,
        "phrase_file": phrases and content_of(phrases),
        "packages": package_versions(PACKAGES),
    }


def _create(job, directory, sources) -> Statistics:
    with Workers(job.num_workers, CorpusStages, (directory, job.without_paths())) as workers:
        counts, runs = _tokenize(job, directory, workers)
        level = _merge("documents", runs, directory, workers)
        statistics, runs = _make(job, directory, workers, counts, level)
        shutil.rmtree(os.path.join(directory, f"documents-{level}"), ignore_errors=True)
        level = _merge("records", runs, directory, workers)
        statistics.text.update(counts)
        parts = _write_parts(job, directory, workers, statistics.record_bytes, level)
    _publish(job.output_files, parts, lambda sizes: describe_corpus(job, sizes, statistics, sources))
    return statistics


def _tokenize(job, directory, workers) -> tuple[Counter, int]:
    """Tokenizes the text, and writes it as runs; returns its counts and the number of runs."""
    stage = TaskTotal(os.path.join(directory, _TOKENIZED))
    tasks = enumerate(_tasks(read_blocks(job.paths, job.formats, job.options.text)))
    packed = any(path.lower().endswith((".gz", ".zst")) for path in job.paths)
    done = stage.total["bytes"] if stage.total else 0
    megabytes = None if packed else (sum(map(os.path.getsize, job.paths)) - done) / 1e6
    with Countdown("Tokenizing", "MB", megabytes) as progress:
        for block_counts in stage.run(workers, "tokenize", tasks):
            progress.advance(block_counts["bytes"] / 1e6)
    counts = Counter(files=len(job.paths)) + (stage.total or Counter())
    check_text(counts, job.options)
    warn_of_unknown_tokens(counts)
    if job.options.text.document_start and counts["documents"] <= len(job.paths):
        logging.warning(
            "`document_start=%r` matched no line except possibly the first ones: there are %d documents in %d files. "
            "It is matched against lines without surrounding whitespace.",
            *(job.options.text.document_start, counts["documents"], len(job.paths)),
        )
    return counts, stage.done


def _merge(kind, number, directory, workers) -> int:
    """Merges runs until there are few enough for a range to be read from all of them; returns their level.

    The time to read all ranges of a corpus would otherwise grow with the square of its size.
    """
    for level in itertools.count():
        if number <= _MOST_RUNS:
            return level
        groups = [range(first, min(first + _MERGED, number)) for first in range(0, number, _MERGED)]
        stage = TaskTotal(os.path.join(directory, f"{kind}-{level}-merged.json"))
        with Countdown(f"Merging {kind}", "runs", len(groups) - stage.done) as progress:
            _remove_runs(directory, kind, level, groups[: stage.done])  # a killed run may not have done so
            for _ in stage.run(workers, "merge", [(kind, level, n, group) for n, group in enumerate(groups)]):
                _remove_runs(directory, kind, level, [groups[stage.done - 1]])
                progress.advance()
        number = len(groups)


def _remove_runs(directory, kind, level, groups):
    for number in itertools.chain.from_iterable(groups):
        shutil.rmtree(run_directory(directory, kind, level, number), ignore_errors=True)


def _make(job, directory, workers, counts, level) -> tuple[Statistics, int]:
    """Creates the records, as runs; returns their statistics and the number of runs."""
    of = number_of_units(counts["tokens"])
    tasks = [(level, pass_number, unit, of) for pass_number in range(job.options.dupe_factor) for unit in range(of)]
    stage = TaskTotal(os.path.join(directory, "made.json"), Statistics.to_values, Statistics.of_values)
    with Countdown("Making examples", "units", len(tasks) - stage.done) as progress:
        for number, _ in enumerate(stage.run(workers, "make_records", tasks)):
            if not number:
                _warn_of_full_disk(directory, stage.total.record_bytes, stage.done / len(tasks))
            progress.advance()
    check_made(stage.total.record_bytes, counts, job.options)
    return stage.total, stage.done


def _warn_of_full_disk(directory, made, share):
    """Warns if the disk is too small for all records, of which `made` bytes are a `share` of 0 to 1.

    They are stored twice: as runs, and in the files that are written from these, uncompressed at most.
    """
    needed, free = 2 * made / share - made, shutil.disk_usage(directory).free
    if needed > free:
        logging.warning(
            "The records need up to %.0f GB more in %s, but only %.0f GB are free. To make fewer, lower "
            "`dupe_factor`, with `dynamic_masking` to 1; or choose a larger disk with `work_dir`.",
            *(needed / 1e9, directory, free / 1e9),
        )


def _write_parts(job, directory, workers, size, level) -> list[list[str]]:
    """Sorts the records and writes those of each file in one or more parts; returns the parts' paths."""
    each = -(-size // (BUCKET_BYTES * len(job.output_files)))
    of = each * len(job.output_files)
    paths = [os.path.join(directory, f"part-{number:08d}") for number in range(of)]
    tasks = [(level, path, n, of, job.output_files[n // each], n % each == 0) for n, path in enumerate(paths)]
    stage = TaskTotal(os.path.join(directory, "written.json"))
    if not all(map(os.path.exists, paths[: stage.done])):  # it was killed while it joined them
        stage.restart()
    with Countdown("Writing", "records") as progress:
        for written in stage.run(workers, "write_part", tasks):
            progress.advance(written.total())
    for path in job.output_files:
        check_written(path, stage.total[path], len(job.output_files))
    return [paths[first : first + each] for first in range(0, of, each)]


def _publish(paths, parts, describe):
    """Joins the parts next to the output files, and renames them when all are complete.

    Also writes the files that `describe` returns for {path: size in bytes}: {path: contents}.
    """
    aside, folders = {}, []
    try:
        with contextlib.ExitStack() as stack:
            for path, its_parts in zip(paths, parts, strict=True):
                aside[path] = stack.enter_context(temporary_path(path))
                _concatenate(aside[path], its_parts)
            for path, data in describe({path: os.path.getsize(aside[path]) for path in paths}).items():
                folders.append(os.path.dirname(os.path.abspath(path)))
                os.makedirs(folders[-1], exist_ok=True)
                aside[path] = stack.enter_context(temporary_path(path))
                with atomic_open(aside[path], "wb") as file:
                    file.write(data)
            for path, its_aside in aside.items():
                os.replace(its_aside, os.path.realpath(path))
    finally:
        for folder in folders:
            with contextlib.suppress(OSError):  # not empty, which is fine
                os.rmdir(folder)


def _concatenate(path, parts):
    try:
        shutil.move(parts[0], path)
        with open(path, "r+b") as file:
            file.seek(0, os.SEEK_END)
            for part in parts[1:]:
                with open(part, "rb") as source:
                    _copy(source, file)
                os.remove(part)
            file.flush()
            os.fsync(file.fileno())  # some file systems report a full disk only here
    except OSError as error:
        error.filename = error.filename or path
        raise


def _copy(source, file):
    """Appends a file to an open one, in the kernel if possible, which is four times faster."""
    if sys.platform != "linux":
        shutil.copyfileobj(source, file, _COPIED_BYTES)
        return
    while os.sendfile(file.fileno(), source.fileno(), None, _COPIED_BYTES):
        pass


def _tasks(blocks):
    """Groups blocks into tasks, so that thousands of small files do not become thousands of runs."""
    task, size = [], 0
    for block in blocks:
        task.append(block)
        size += len(block.data)
        if size >= _TASK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task
