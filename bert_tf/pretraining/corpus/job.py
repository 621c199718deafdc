"""Creates pretraining records from text files on one machine, with memory use independent of the corpus size.

    text --tokenize--> documents --shuffle--> units --mask--> records --shuffle--> files

Both shuffles use the disk, as runs sorted by random keys (`external_sort`). The work in between is split into tasks
(`CorpusStages`), so any number of processes creates the same files.
"""

import contextlib
import dataclasses
import functools
import os
import shutil
import sys
from collections import Counter

import numpy as np
from absl import logging

from bert_tf.data import tfrecords
from bert_tf.data.features import NOTHING, Ragged, concatenate_features
from bert_tf.data.tfrecords import compression_of, serialize
from bert_tf.pretraining.corpus import external_sort
from bert_tf.pretraining.corpus.documents import (
    Documents,
    tokenize_documents,
)
from bert_tf.pretraining.corpus.examples import OBJECTIVES, CorpusOptions, lay_out_examples
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.masked_positions import MaskingVocabulary
from bert_tf.pretraining.masking import mask
from bert_tf.pretraining.packing import pack_examples
from bert_tf.pretraining.record_metadata import describe_corpus, hash_sources, metadata_of_job
from bert_tf.tokenization.added_tokens import AddedToken
from bert_tf.utils.documents import read_blocks, read_documents
from bert_tf.utils.files import temporary_path, write_text
from bert_tf.utils.names import number_of
from bert_tf.utils.progress import Countdown
from bert_tf.utils.workers import Workers

_TASK_BYTES = 1 << 22  # of text, tokenized at a time
_BUCKET_BYTES = 1 << 26  # of records, sorted at a time
_COPIED_BYTES = 1 << 26


@dataclasses.dataclass(frozen=True)
class CorpusJob:
    """The text files, tokenizer, options and output files of a run.

    Attributes:
        paths, formats: the text files and their formats; see `bert_tf.utils.text_files`.
        output_files: files that the records are randomly distributed over; compressed if they end in .gz.
        vocab_file, do_lower_case: settings of the tokenizer.
        options: how examples are created.
        num_workers: number of processes.
        work_dir: directory for the sorted runs. If None, the directory of the first output file.
        strip_accents: setting of the tokenizer. If None, the same as do_lower_case.
        added_tokens: added tokens of the tokenizer.
    """

    paths: list
    formats: list
    output_files: list
    vocab_file: str
    do_lower_case: bool = True
    options: CorpusOptions = CorpusOptions()
    num_workers: int = 1
    work_dir: str | None = None
    strip_accents: bool | None = None
    added_tokens: tuple[AddedToken, ...] = ()

    @property
    def strips_accents(self) -> bool:
        """True if accents are stripped."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents

    def make_tokenizer(self):
        """Returns the WordPiece tokenizer."""
        from bert_tf.tokenization.wordpiece import Tokenizer  # imports TensorFlow, which only worker processes need

        accents = self.strip_accents
        return Tokenizer(self.vocab_file, self.do_lower_case, strip_accents=accents, added_tokens=self.added_tokens)


@contextlib.contextmanager
def scratch_folder(place: str, name: str):
    """Creates a hidden temporary directory in `place`, for a `with` block.

    If the process is killed, the next call for `place` removes the remains.
    """
    with temporary_path(os.path.join(place, name)) as directory:
        os.mkdir(directory, 0o700)  # others can neither read the text nor put files there
        yield directory


# === Units ===
# A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Its random choices
# depend only on the seed, the pass and the number of the range, not on the process or the time.


UNIT_TOKENS = 1 << 22  # approximate: enough documents to sample random next sentences from, and small enough for memory
_EXAMPLES = 4096  # masked together, so that the arrays stay in the processor's cache
_EXAMPLES_TO_PACK = 1 << 15  # more candidates give fuller rows


def number_of_units(tokens: int) -> int:
    """Returns the number of units of a pass over a corpus of the given number of tokens."""
    return max(1, -(-tokens // UNIT_TOKENS))


def make_batches(
    documents: Documents,
    options: CorpusOptions,
    vocabulary: MaskingVocabulary,
    pass_number: int,
    unit: int,
    statistics=None,
):
    """Creates the examples of a unit, in random order.

    Args:
        documents: the unit's documents, sorted by key.
        options, vocabulary: how to create the examples.
        pass_number, unit: integers from 0 that determine the random choices.
        statistics: a `Statistics` that counts the examples, or None.

    Yields:
        {name: array [n, ...]} with the features of `bert_tf.data.features` that the options require.
    """
    rng = np.random.default_rng([options.random_seed, pass_number, unit])
    objective = OBJECTIVES[options.sentence_objective]
    examples = objective(documents, options.max_seq_length, options.short_seq_prob, rng)
    examples = examples.take(rng.permutation(len(examples.label)))
    size = _EXAMPLES_TO_PACK if options.packing else _EXAMPLES
    for start in range(0, len(examples.label), size):
        chosen = examples.take(slice(start, start + size))
        counts = None if statistics is None else statistics.phrases
        rows = _masked_rows(documents, chosen, options, vocabulary, rng, counts)
        if statistics is not None:
            statistics.add_examples(rows, chosen.forced, vocabulary)
        if options.packing:
            rows = pack_examples(rows, options.max_predictions_per_seq, options.max_sentences_per_seq)
        if statistics is not None:
            statistics.add_rows(rows["input_mask"])
        yield rows


def make_records(documents, options, vocabulary, pass_number, unit) -> tuple[np.ndarray, Ragged, Statistics]:
    """Returns the random uint64 keys and the bytes of the unit's records, and their statistics.

    The arguments are the same as of `make_batches`.
    """
    statistics = Statistics.empty(options, vocabulary.vocab_size)
    parts = [serialize(rows) for rows in make_batches(documents, options, vocabulary, pass_number, unit, statistics)]
    records = concatenate_features(parts) if parts else NOTHING
    rng = np.random.default_rng([options.random_seed, pass_number, unit, 1])
    keys = rng.integers(0, np.iinfo(np.uint64).max, len(records.lengths), np.uint64, endpoint=True)
    return np.sort(keys), records, statistics  # sorted for speed: the records are already in random order


def _masked_rows(documents, examples, options, vocabulary, rng, counts):
    """Returns the features of examples, masked a few thousand at a time for speed."""
    parts = []
    for start in range(0, len(examples.label), _EXAMPLES):
        rows = lay_out_examples(
            documents, examples.take(slice(start, start + _EXAMPLES)), options.max_seq_length, vocabulary
        )
        if options.sentence_objective == "none":
            del rows["next_sentence_labels"]
        if not options.dynamic_masking:
            rows |= mask(rows["input_ids"], options.masks, vocabulary, rng, counts)
        parts.append(rows)
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([rows[name] for rows in parts]) for name in parts[0]}


# === Stages ===
# The tasks of a local run: units of work for one process, from files on disk to files on disk.
#
# The result of each task depends only on its arguments and the files of earlier stages, so it does not matter which
# process runs it.


_COLUMNS = ["ids", "tokens", "sentences"]  # of `Documents`, in addition to its keys


class CorpusStages:
    """The tasks of one process, which creates its tokenizer on first use.

    Args:
        directory: directory of the runs, with a subdirectory per kind.
        job: the options of the whole run.
    """

    def __init__(self, directory: str, job: CorpusJob):
        self._directory, self._job, self._options = directory, job, job.options

    def tokenize(self, number: int, blocks: list) -> Counter:
        """Reads and tokenizes text blocks, and writes their documents.

        Args:
            number: number of the run to write.
            blocks: a list of `bert_tf.utils.documents.Block`.

        Returns:
            The counts of what was read by name: documents, tokens and so on.
        """
        counts = Counter(bytes=sum(len(block.data) for block in blocks))
        texts = [text for block in blocks for text in read_documents(block, self._options.text, counts)]
        documents = tokenize_documents(texts, self._tokenizer, self._options.random_seed)
        counts["tokens"] = len(documents.tokens.flat)
        columns = {name: getattr(documents, name) for name in _COLUMNS}
        external_sort.write_sorted(self._run("documents", number), documents.keys, columns)
        return counts

    def read_documents(self, unit: int, of: int) -> Documents:
        """Returns the documents of a unit."""
        low, high = external_sort.bounds(unit, of)
        keys, columns = external_sort.read_sorted(self._runs("documents"), _COLUMNS, low, high)
        return Documents(keys, **columns)

    def make_records(self, pass_number: int, unit: int, of: int) -> tuple[Statistics, int]:
        """Creates the records of a unit and writes them as a run; returns their statistics and size in bytes."""
        documents = self.read_documents(unit, of)
        keys, rows, statistics = make_records(documents, self._options, self.vocabulary, pass_number, unit)
        external_sort.write_sorted(self._run("records", pass_number, unit), keys, {"records": rows})
        return statistics, len(rows.flat)

    def write_part(self, path: str, number: int, of: int, compression: str, first: bool) -> int:
        """Writes the records of key range `number` to a record file, or a part of one; returns their number.

        In the `first` part, the first record states how the file was created.
        """
        bounds = external_sort.bounds(number, of)
        _, columns, order = external_sort.read_unsorted(self._runs("records"), ["records"], *bounds)
        stamp = metadata_of_job(self._job).stamp() if first else b""
        tfrecords.write_records(path, columns["records"], compression, durable=False, order=order, stamp=stamp)
        return len(order)

    @functools.cached_property
    def vocabulary(self) -> MaskingVocabulary:
        """Returns the special ids for masking, and the phrases to mask as units."""
        return MaskingVocabulary.of_tokenizer(self._tokenizer, self._options.phrase_file)

    @functools.cached_property
    def _tokenizer(self):
        return self._job.make_tokenizer()

    def _run(self, kind, *numbers):
        """Returns the directory of a run; the names sort like the numbers."""
        return os.path.join(self._directory, kind, "-".join(f"{number:08d}" for number in numbers))

    def _runs(self, kind):
        folder = os.path.join(self._directory, kind)
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


# === Local run ===


def create_pretraining_data(job: CorpusJob) -> Statistics:
    """Creates the record files and their descriptions, atomically.

    Returns:
        The statistics of the text and the records.

    Raises:
        ValueError: the text or the options are not valid.
        OSError: a file cannot be written, for example because the disk is full.
    """
    for path in job.output_files:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    place = job.work_dir or os.path.dirname(os.path.abspath(job.output_files[0]))
    with scratch_folder(place, "create_pretraining_data") as directory:
        sources = hash_sources(job.paths)
        with Workers(job.num_workers, CorpusStages, (directory, job)) as workers:
            counts = tokenize_corpus(job, workers)
            statistics, size = _make(job, workers, counts)
            statistics.text.update(counts)
            shutil.rmtree(os.path.join(directory, "documents"))
            parts = _write_parts(job, directory, workers, size)
        _publish(job.output_files, parts, lambda sizes: describe_corpus(job, sizes, statistics, sources))
    return statistics


def tokenize_corpus(job: CorpusJob, workers: Workers) -> Counter:
    """Tokenizes the text, and writes it as runs; returns its counts."""
    counts = Counter(files=len(job.paths))
    tasks = enumerate(_tasks(read_blocks(job.paths, job.formats, job.options.text)))
    packed = any(path.lower().endswith((".gz", ".zst")) for path in job.paths)
    megabytes = None if packed else sum(map(os.path.getsize, job.paths)) / 1e6
    with Countdown("Tokenizing", "MB", megabytes) as progress:
        for block_counts in workers.map("tokenize", tasks):
            counts.update(block_counts)
            progress.advance(block_counts["bytes"] / 1e6)
    check_text(counts, job.options)
    if job.options.text.document_start and counts["documents"] <= len(job.paths):
        logging.warning(
            "`document_start=%r` matched no line except possibly the first ones: there are %d documents in %d files. "
            "It is matched against lines without surrounding white space.",
            *(job.options.text.document_start, counts["documents"], len(job.paths)),
        )
    return counts


def check_text(counts: Counter, options: CorpusOptions):
    """Raises ValueError if there is not enough text to create examples."""
    if not counts["tokens"]:
        raise ValueError(
            f"No sentences found in {number_of(counts['files'], 'file')}. "
            "Check `input_file` and `input_format`."
        )
    if options.sentence_objective == "nsp" and counts["documents"] < 2:
        raise ValueError(
            "Next sentence prediction requires at least two documents, because a random sentence comes from another "
            "one. There is only one; separate documents with blank lines (`input_format=sentences`), use more files or "
            "`document_start` (prose), or use `sentence_objective=sop` or none."
        )


def check_made(size: int, counts: Counter, options: CorpusOptions):
    """Raises ValueError if no record was created; `size` is their number or size in bytes."""
    if not size:
        raise ValueError(
            f"The text is too short: no example could be made of its {counts['tokens']} tokens "
            f"with `sentence_objective={options.sentence_objective}`. Use more text."
        )


def _make(job, workers, counts) -> tuple[Statistics, int]:
    """Creates the records, as runs; returns their statistics and size in bytes."""
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
    """Sorts the records and writes those of each file in one or more parts; returns the parts' paths."""
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
    """Raises ValueError if one of several files would have no record."""
    if not number:
        raise ValueError(
            f"Too many output files: the text is so short that {path}, one of {of} files, has no record. "
            "Write fewer files."
        )


def _publish(paths, parts, describe):
    """Joins the parts next to the output files, and renames these when all of them are complete.

    Also writes the text files that `describe` returns for {path: bytes}: {path: text}.
    """
    aside, folders = {}, []
    try:
        with contextlib.ExitStack() as stack:
            for path, its_parts in zip(paths, parts, strict=True):
                aside[path] = stack.enter_context(temporary_path(path))
                _concatenate(aside[path], its_parts)
            for path, text in describe({path: os.path.getsize(aside[path]) for path in paths}).items():
                folders.append(os.path.dirname(os.path.abspath(path)))
                os.makedirs(folders[-1], exist_ok=True)
                aside[path] = stack.enter_context(temporary_path(path))
                write_text(aside[path], text)
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
