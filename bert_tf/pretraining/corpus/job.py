"""Creates pretraining records from text files on one machine, in memory that does not grow with the corpus.

    text --tokenize--> documents --shuffle--> units --mask--> records --shuffle--> files

Both shuffles go over the disk, as runs sorted by random keys (`external_sort`). What lies between them is cut into
tasks (`CorpusStages`), so any number of processes makes the same files.
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
    """The text, tokenizer, options and output files of one run.

    Attributes:
        paths, formats: the text files and what they hold; see `bert_tf.utils.text_files`.
        output_files: the records are shared out among these at random; .gz: compressed.
        vocab_file, do_lower_case: of the tokenizer.
        options: how the examples are made.
        num_workers: processes.
        work_dir: where there is room for the sorted runs; None: the folder of the first output file.
        strip_accents: of the tokenizer; None: as do_lower_case.
        added_tokens: of the tokenizer.
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
        """True where letters lose their accents."""
        return self.do_lower_case if self.strip_accents is None else self.strip_accents

    def make_tokenizer(self):
        """Returns the WordPiece tokenizer."""
        from bert_tf.tokenization.wordpiece import Tokenizer  # imports TensorFlow: only those who work wait for it

        accents = self.strip_accents
        return Tokenizer(self.vocab_file, self.do_lower_case, strip_accents=accents, added_tokens=self.added_tokens)


@contextlib.contextmanager
def scratch_folder(place: str, name: str):
    """Makes a hidden folder in `place` for the length of a `with` block.

    If the process is killed, the next one that makes such a folder in `place` removes what was left.
    """
    with temporary_path(os.path.join(place, name)) as directory:
        os.mkdir(directory, 0o700)  # others can neither read the text nor put files there
        yield directory


# === Units ===
# A unit is the documents whose keys lie in one range, sorted by key, in one pass over the corpus. Whatever is drawn for
# it depends on the seed, the pass and the number of the range alone: not on who does the work, or when.


UNIT_TOKENS = 1 << 22  # about: enough documents to draw a random next sentence from, and little enough memory
_EXAMPLES = 4096  # masked at a time, so that the arrays stay in the processor's cache
_EXAMPLES_TO_PACK = 1 << 15  # the more there are to choose from, the fuller are the rows


def number_of_units(tokens: int) -> int:
    """Returns into how many units a pass over a corpus of so many tokens is divided."""
    return max(1, -(-tokens // UNIT_TOKENS))


def make_batches(
    documents: Documents,
    options: CorpusOptions,
    vocabulary: MaskingVocabulary,
    pass_number: int,
    unit: int,
    statistics=None,
):
    """Makes the examples of a unit, in a random order.

    Args:
        documents: of the unit, sorted by key.
        options, vocabulary: of the examples.
        pass_number, unit: integers from 0, which the random draws depend on.
        statistics: a `Statistics` that counts what is made, or None.

    Yields:
        {name: array [n, ...]} with the features of `bert_tf.data.features` that the options ask for.
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
    """Returns the unit's records: a random uint64 key and the bytes of each, and their statistics.

    The arguments are those of `make_batches`.
    """
    statistics = Statistics.empty(options, vocabulary.vocab_size)
    parts = [serialize(rows) for rows in make_batches(documents, options, vocabulary, pass_number, unit, statistics)]
    records = concatenate_features(parts) if parts else NOTHING
    rng = np.random.default_rng([options.random_seed, pass_number, unit, 1])
    keys = rng.integers(0, np.iinfo(np.uint64).max, len(records.lengths), np.uint64, endpoint=True)
    return np.sort(keys), records, statistics  # sorted for speed: the records themselves are in a random order


def _masked_rows(documents, examples, options, vocabulary, rng, counts):
    """The features of some examples. Masked a few thousand at a time, packed or not: it is faster so."""
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
# The tasks that a local run consists of: what one process does at a time, from files on disk to files on disk.
#
# Each task depends on its arguments and on what earlier stages wrote alone, so it does not matter which process does
# it.


_COLUMNS = ["ids", "tokens", "sentences"]  # of `Documents`, in addition to its keys


class CorpusStages:
    """The tasks of one process, which makes its tokenizer when it is first needed.

    Args:
        directory: where the runs lie, those of a kind in a folder.
        job: what is to be made.
    """

    def __init__(self, directory: str, job: CorpusJob):
        self._directory, self._job, self._options = directory, job, job.options

    def tokenize(self, number: int, blocks: list) -> Counter:
        """Reads some text and writes its documents.

        Args:
            number: of the run to write.
            blocks: list of `bert_tf.utils.documents.Block`.

        Returns:
            What was read: documents, tokens and so on, by name.
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
        """Makes the records of a unit and writes them as a run. Returns their statistics and bytes."""
        documents = self.read_documents(unit, of)
        keys, rows, statistics = make_records(documents, self._options, self.vocabulary, pass_number, unit)
        external_sort.write_sorted(self._run("records", pass_number, unit), keys, {"records": rows})
        return statistics, len(rows.flat)

    def write_part(self, path: str, number: int, of: int, compression: str, first: bool) -> int:
        """Writes the records of range `number` of all keys to a record file, or a part of one; returns how many.

        Where it is the `first` part, its first record says of the file how it was made.
        """
        bounds = external_sort.bounds(number, of)
        _, columns, order = external_sort.read_unsorted(self._runs("records"), ["records"], *bounds)
        stamp = metadata_of_job(self._job).stamp() if first else b""
        tfrecords.write_records(path, columns["records"], compression, durable=False, order=order, stamp=stamp)
        return len(order)

    @functools.cached_property
    def vocabulary(self) -> MaskingVocabulary:
        """The ids that masking has to know, and the phrases that are masked as one."""
        return MaskingVocabulary.of_tokenizer(self._tokenizer, self._options.phrase_file)

    @functools.cached_property
    def _tokenizer(self):
        return self._job.make_tokenizer()

    def _run(self, kind, *numbers):
        """Returns the folder of one run; names sort as the numbers do."""
        return os.path.join(self._directory, kind, "-".join(f"{number:08d}" for number in numbers))

    def _runs(self, kind):
        folder = os.path.join(self._directory, kind)
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


# === Local run ===


def create_pretraining_data(job: CorpusJob) -> Statistics:
    """Makes the record files, and the files that describe them next to them: all of it, or nothing.

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
    """Writes the tokenized text as runs; returns its counts."""
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
    """Raises ValueError where the text that was read is too little to make examples of."""
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
    """Raises ValueError where no record was made; `size` is how many there are, or of how many bytes."""
    if not size:
        raise ValueError(
            f"The text is too short: no example could be made of its {counts['tokens']} tokens "
            f"with `sentence_objective={options.sentence_objective}`. Use more text."
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
            f"Too many output files: the text is so short that {path}, one of {of} files, has no record. "
            "Write fewer files."
        )


def _publish(paths, parts, describe):
    """Puts the parts together next to the output files, and renames these when all of them are whole.

    With them goes what `describe` makes of {path: bytes}: {path: text}.
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
