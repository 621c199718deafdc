"""The tasks of a local run: units of work for one process, from files on disk to files on disk.

The result of each task depends only on its arguments and the files of earlier stages, so it does not matter which
process runs it, or how often.
"""

import functools
import os
from collections import Counter

from bert_tf.data import tfrecords
from bert_tf.data.record_features import compression_of
from bert_tf.pretraining.corpus import external_sort
from bert_tf.pretraining.corpus.description import metadata_of_job
from bert_tf.pretraining.corpus.document_tokenization import count_tokens, tokenize_documents
from bert_tf.pretraining.corpus.documents import Documents
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.units import make_records
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.utils.documents import read_documents

BUCKET_BYTES = 1 << 26  # of records, sorted at a time

_COLUMNS = {"documents": ["ids", "tokens", "sentences"], "records": ["records"]}  # of the runs, in addition to the keys


def run_directory(directory: str, kind: str, level: int, number: int) -> str:
    """Returns the directory of a run: of "documents" or "records", merged `level` times. Names sort like numbers."""
    return os.path.join(directory, f"{kind}-{level}", f"{number:08d}")


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
            blocks: a list of `bert_tf.utils.text_blocks.Block`.

        Returns:
            The counts of what was read by name: documents, tokens and so on.
        """
        counts = Counter(bytes=sum(len(block.data) for block in blocks))
        texts = [text for block in blocks for text in read_documents(block, self._options.text, counts)]
        seed, segmenter = self._options.random_seed, self._segmenter
        documents = tokenize_documents(texts, self._tokenizer, seed, segmenter=segmenter)
        counts.update(count_tokens(documents, self._tokenizer.unk_id))
        columns = {name: getattr(documents, name) for name in _COLUMNS["documents"]}
        external_sort.write_sorted(self._run("documents", 0, number), documents.keys, columns)
        return counts

    def merge(self, kind: str, level: int, number: int, runs: range) -> Counter:
        """Merges runs of a level into run `number` of the next one; returns the count of it."""
        several = [self._run(kind, level, run) for run in runs]
        target = self._run(kind, level + 1, number)
        external_sort.merge_runs(several, _COLUMNS[kind], target, BUCKET_BYTES)
        return Counter(runs=1)

    def make_records(self, level: int, pass_number: int, unit: int, of: int) -> Statistics:
        """Creates the records of a unit and writes them as a run; returns their statistics.

        The runs of documents are those of the given level.
        """
        bounds = external_sort.bounds(unit, of)
        keys, columns = external_sort.read_sorted(self._runs("documents", level), _COLUMNS["documents"], *bounds)
        documents = Documents(keys, **columns)
        keys, rows, statistics = make_records(documents, self._options, self.vocabulary, pass_number, unit)
        external_sort.write_sorted(self._run("records", 0, pass_number * of + unit), keys, {"records": rows})
        return statistics

    def write_part(self, level: int, path: str, number: int, of: int, file: str, first: bool) -> Counter:
        """Writes the records of a key range to `path`, a part of an output file; returns {file: number of records}.

        In the `first` part, the first record describes how the file was created.
        """
        bounds = external_sort.bounds(number, of)
        _, columns, order = external_sort.read_unsorted(self._runs("records", level), _COLUMNS["records"], *bounds)
        stamp = metadata_of_job(self._job).stamp() if first else b""
        tfrecords.write_records(path, columns["records"], compression_of(file), durable=True, order=order, stamp=stamp)
        return Counter({file: len(order)})

    @functools.cached_property
    def vocabulary(self) -> MaskingVocabulary:
        """Returns the special ids for masking, and the phrases to mask as units."""
        return MaskingVocabulary.of_tokenizer(self._tokenizer, self._options.phrase_file)

    @functools.cached_property
    def _tokenizer(self):
        return self._job.make_tokenizer()

    @functools.cached_property
    def _segmenter(self):
        return self._job.make_segmenter()

    def _run(self, kind, level, number):
        return run_directory(self._directory, kind, level, number)

    def _runs(self, kind, level):
        folder = os.path.join(self._directory, f"{kind}-{level}")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
