"""From text files to record files on one machine, in memory that does not grow with the corpus.

    text --tokenize--> documents --shuffle--> units --mask--> records --shuffle--> files

Both shuffles go over the disk, as runs sorted by random keys (`runs`). What lies between them is cut into tasks
(`stages`), so any number of processes makes the same files.
"""

import contextlib
import dataclasses
import os
import shutil
import sys
from collections import Counter

from absl import logging

from bert_tf.data.record_features import compression_of
from bert_tf.pretraining.corpus.context import Context, scratch_folder
from bert_tf.pretraining.corpus.description import sources_of, texts_beside
from bert_tf.pretraining.corpus.options import Options
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.unit import number_of_units
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.utils.counts import number_of
from bert_tf.utils.files import temporary_beside, write_text
from bert_tf.utils.progress import Countdown
from bert_tf.utils.text.blocks import read_blocks
from bert_tf.utils.workers import Workers

_TASK_BYTES = 1 << 22  # of text, tokenized at a time
_BUCKET_BYTES = 1 << 26  # of records, sorted at a time
_COPIED_BYTES = 1 << 26
_HASHES = 1 << 22  # of sentences, compared at a time


@dataclasses.dataclass(frozen=True)
class Job:
    """What is to be made of what.

    Attributes:
        paths, formats: the text files and what they hold; see `bert_tf.utils.text.files`.
        output_files: the records are shared out among these at random; .gz: compressed.
        vocab_file, do_lower_case: of the tokenizer.
        options: how the examples are made.
        num_workers: processes.
        work_dir: where there is room for the runs; None: beside the first output file.
        strip_accents: of the tokenizer; None: as do_lower_case.
        added_tokens: of the tokenizer.
    """

    paths: list
    formats: list
    output_files: list
    vocab_file: str
    do_lower_case: bool = True
    options: Options = Options()
    num_workers: int = 1
    work_dir: str | None = None
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()

    @property
    def strips_accents(self) -> bool:
        """Whether letters lose their accents."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents


def create_pretraining_data(job: Job) -> Statistics:
    """Makes the record files, and what describes them beside: all of it, or nothing.

    Returns:
        What was read and made.

    Raises:
        ValueError: the text, or what is to be made of it, is not as it must be.
        OSError: something cannot be written, for example because the disk is full.
    """
    for path in job.output_files:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    place = job.work_dir or os.path.dirname(os.path.abspath(job.output_files[0]))
    with scratch_folder(place, "create_pretraining_data") as directory:
        sources = sources_of(job.paths)
        tokenizing = job.options, job.strips_accents, job.added_tokens
        context = Context(directory, job.vocab_file, job.do_lower_case, *tokenizing)
        with Workers(job.num_workers, make_stages, (context,)) as workers:
            counts = read_text(job, workers)
            statistics, size = _make(job, workers, counts)
            statistics.add_text(counts)
            shutil.rmtree(os.path.join(directory, "documents"))
            parts = _write_parts(job, directory, workers, size)
        _publish(job.output_files, parts, lambda sizes: texts_beside(job, sizes, statistics, sources))
    return statistics


def make_stages(context: Context):
    """Returns the `Stages` of a process; only those who work import TensorFlow, so that they begin at once."""
    from bert_tf.pretraining.corpus.stages import Stages

    return Stages(context)


def read_text(job: Job, workers: Workers) -> Counter:
    """Tokenizes the text, drops duplicates if asked to, and counts."""
    counts = Counter(files=len(job.paths))
    tasks = enumerate(_tasks(read_blocks(job.paths, job.formats, job.options.text)))
    with Countdown("Tokenizing", "MB", _megabytes(job.paths)) as progress:
        for block_counts in workers.map("tokenize", tasks):
            counts.update(block_counts)
            progress.advance(block_counts["bytes"] / 1e6)
    check_text(counts, job.options)
    warn_of_documents(counts, job)
    if job.options.drop_duplicate_lines:
        of = -(-counts["sentences"] // _HASHES)
        with Countdown("Looking for duplicates", "parts", of) as progress:
            for part_counts in workers.map("find_duplicates", ((number, of) for number in range(of))):
                counts.update(part_counts)
                progress.advance()
    return counts


def check_text(counts: Counter, options: Options):
    """Raises ValueError where the text that was read is too little to make examples of."""
    if not counts["tokens"]:
        raise ValueError(
            f"The text must hold a sentence at least. Received {number_of(counts['files'], 'file')} without one; "
            "look at `input_file` and `input_format`."
        )
    if options.sentence_objective == "nsp" and counts["documents"] < 2:
        raise ValueError(
            "Next sentence prediction must have two documents at least, for a random sentence comes from another one. "
            "Received one document; part documents with blank lines (`input_format=sentences`), give more files or "
            "`document_start` (prose), or use `sentence_objective=sop` or none."
        )


def warn_of_documents(counts: Counter, job: Job):
    """Says where --document_start was given and found nowhere."""
    if job.options.text.document_start and counts["documents"] <= len(job.paths):
        logging.warning(
            "`document_start=%r` was found in no line but perhaps the first ones: there are %d documents in %d files. "
            "It is sought in lines without the blanks around them.",
            *(job.options.text.document_start, counts["documents"], len(job.paths)),
        )


def check_made(size: int, counts: Counter, options: Options):
    """Raises ValueError where no record was made; `size` is how many there are, or of how many bytes."""
    if not size:
        raise ValueError(
            f"The text must be enough for an example. Received {counts['tokens']} pieces, of which none could be made "
            f"with `sentence_objective={options.sentence_objective}`; give more text."
        )


def _make(job, workers, counts) -> tuple[Statistics, int]:
    """Makes the records, as runs. Returns what they are like and how many bytes they have."""
    of = number_of_units(counts["tokens"])
    tasks = [(pass_number, unit, of) for pass_number in range(job.options.dupe_factor) for unit in range(of)]
    statistics, size = None, 0
    with Countdown("Making examples", "units", len(tasks)) as progress:
        for its_statistics, its_size in workers.map("make_records", tasks):
            statistics = its_statistics if statistics is None else statistics + its_statistics
            size += its_size
            progress.advance()
    check_made(size, counts, job.options)
    return statistics, size


def _write_parts(job, directory, workers, size) -> list[list[str]]:
    """Sorts the records and writes each file's as one part or several. Returns their paths."""
    each = -(-size // (_BUCKET_BYTES * len(job.output_files)))
    of = each * len(job.output_files)
    parts = [
        [os.path.join(directory, f"part-{number:08d}") for number in range(file * each, (file + 1) * each)]
        for file in range(len(job.output_files))
    ]
    compression = [compression_of(path) for path in job.output_files for _ in range(each)]
    paths = [path for its_parts in parts for path in its_parts]
    tasks = [(path, n, of, compression[n], n % each == 0) for n, path in enumerate(paths)]
    written = [0] * len(parts)
    with Countdown("Writing", "records") as progress:
        for task, number in enumerate(workers.map("write_part", tasks)):
            written[task // each] += number
            progress.advance(number)
    for path, number in zip(job.output_files, written, strict=True):
        check_written(path, number, len(parts))
    return parts


def check_written(path: str, number: int, of: int):
    """Raises ValueError where one of several files would hold no record."""
    if not number:
        raise ValueError(
            f"Each output file must have a record. Received {of} files for so little text that {path} has none; "
            "write fewer files."
        )


def _publish(paths, parts, describe):
    """Puts the parts together beside the output files, and renames these when all of them are whole.

    With them goes what `describe` makes of {path: bytes}: {path: text}.
    """
    aside, folders = {}, []
    try:
        with contextlib.ExitStack() as stack:
            for path, its_parts in zip(paths, parts, strict=True):
                aside[path] = stack.enter_context(temporary_beside(path))
                _concatenate(aside[path], its_parts)
            for path, text in describe({path: os.path.getsize(aside[path]) for path in paths}).items():
                folders.append(os.path.dirname(os.path.abspath(path)))
                os.makedirs(folders[-1], exist_ok=True)
                aside[path] = stack.enter_context(temporary_beside(path))
                write_text(aside[path], text)
            for path, its_aside in aside.items():
                os.replace(its_aside, os.path.realpath(path))
    finally:
        for folder in folders:
            with contextlib.suppress(OSError):  # it is not empty: all is well
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
            os.fsync(file.fileno())  # some file systems notice a full disk only here
    except OSError as error:
        error.filename = error.filename or path
        raise


def _copy(source, file):
    """Copies a file to where another one stands: by the kernel where it can, four times as fast."""
    if sys.platform != "linux":
        shutil.copyfileobj(source, file, _COPIED_BYTES)
        return
    while os.sendfile(file.fileno(), source.fileno(), None, _COPIED_BYTES):
        pass


def _tasks(blocks):
    """Groups blocks until they make up a task, so that thousands of small files do not become thousands of runs."""
    task, size = [], 0
    for block in blocks:
        task.append(block)
        size += len(block.data)
        if size >= _TASK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task


def _megabytes(paths):
    """How much text there is, or None where files are packed."""
    packed = any(path.lower().endswith((".gz", ".zst")) for path in paths)
    return None if packed else sum(map(os.path.getsize, paths)) / 1e6
