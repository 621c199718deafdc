"""Creates pretraining records on Apache Beam: the same records as a local run, on all machines of a runner.

Each step calls the same function as a local run, with the same random keys, so the records are the same. One worker at
a time reads a text file, holds the documents of a unit and sorts the records of an output file: use many text files,
and enough shards that the records of one fit into memory.
"""

import dataclasses
import functools
import json
import operator
import os
import secrets
import shlex
import shutil
import tempfile
from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.pvalue import AsSingleton, TaggedOutput

from bert_tf.data import ragged, record_features, tfrecords
from bert_tf.pretraining.corpus import documents as arrays
from bert_tf.pretraining.corpus import external_sort
from bert_tf.pretraining.corpus.checks import check_made, check_text, check_written, warn_of_unknown_tokens
from bert_tf.pretraining.corpus.description import describe_corpus, hash_sources, metadata_of_job
from bert_tf.pretraining.corpus.document_tokenization import count_tokens, tokenize_documents
from bert_tf.pretraining.corpus.job import CorpusJob
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.corpus.units import make_records, number_of_units
from bert_tf.pretraining.masking_vocabulary import MaskingVocabulary
from bert_tf.utils.documents import read_documents
from bert_tf.utils.proxies import exempt_local
from bert_tf.utils.text_blocks import read_blocks


def run_pipeline(job: CorpusJob, runner: str, beam_options: str = "") -> Statistics:
    """Runs `job` on a Beam runner and waits until it finishes; see `local_run.create_pretraining_data`.

    Args:
        job: num_workers and work_dir are ignored; the runner decides on them.
        runner: a runner's name in Beam, such as "DirectRunner".
        beam_options: further options, as on the command line of a Beam program.

    Returns:
        The statistics of the text and the records.
    """
    exempt_local()
    options = PipelineOptions(shlex.split(beam_options), runner=runner)
    options.view_as(SetupOptions).save_main_session = False
    sources = hash_sources(job.paths)
    aside = {path: _temporary_path(path) for path in job.output_files}
    report = _temporary_path(f"{job.output_files[0]}.report")
    try:
        with beam.Pipeline(options=options) as pipeline:
            build_pipeline(pipeline, job, list(aside.values()), report)
        with FileSystems.open(report) as file:
            counts, statistics = _parse_report(file.read())
        check_made(statistics.rows, counts, job.options)
        warn_of_unknown_tokens(counts)
        statistics.text.update(counts + Counter(files=len(job.paths)))
        sizes = {path: FileSystems.get_filesystem(hidden).size(hidden) for path, hidden in aside.items()}
        for path, data in describe_corpus(job, sizes, statistics, sources).items():
            aside[path] = _temporary_path(path)
            _write_bytes(aside[path], data)
        FileSystems.delete([path for path in aside if FileSystems.exists(path)])
        FileSystems.rename(list(aside.values()), list(aside))
    finally:
        FileSystems.delete([path for path in (*aside.values(), report) if FileSystems.exists(path)])
    return statistics


def build_pipeline(pipeline, job: CorpusJob, output_files: list[str], report: str):
    """Adds the steps to a pipeline; writes records to `output_files`, counts and `Statistics` as JSON to `report`."""
    files = [(number, *file) for number, file in enumerate(zip(job.paths, job.formats, strict=True))]
    stamp = metadata_of_job(job).stamp()
    # Each step has a copy of the job, without the tables of its tokenizer, and a runner limits the size of all steps
    # together.
    job = job.without_paths()
    blocks = (
        pipeline
        | "Files" >> beam.Create(files)
        | "Spread files" >> beam.Reshuffle()
        | "Read" >> beam.FlatMap(_read, job)
        | "Spread blocks" >> beam.Reshuffle()
    )
    read = blocks | "Tokenize" >> beam.ParDo(_TokenizeBlocks(job)).with_outputs("counts", main="documents")
    counts = read.counts | "Count" >> beam.CombineGlobally(_add)
    of = counts | "Number of units" >> beam.Map(_number_of_units, job, len(files))
    by_unit = read.documents | "Documents by unit" >> beam.FlatMap(_split_by_unit, AsSingleton(of))
    units = by_unit | "Shuffle documents" >> beam.GroupByKey()
    outputs = units | "Make" >> beam.ParDo(_Make(job)).with_outputs("statistics", main="records")
    each = pipeline | "Each output file" >> beam.Create([(number, None) for number in range(len(output_files))])
    together = (outputs.records, each) | "All records" >> beam.Flatten() | "Shuffle records" >> beam.GroupByKey()
    _ = together | "Write" >> beam.Map(_write, output_files, job.output_files, stamp)
    statistics = outputs.statistics | "Add up" >> beam.CombineGlobally(_add).without_defaults()
    _ = counts | "Report" >> beam.Map(_write_report, AsSingleton(statistics), report)


class _WithTokenizer(beam.DoFn):
    """A step that creates its tokenizer once per worker."""

    def __init__(self, job):
        self._job = job

    def setup(self):
        self._tokenizer = self._job.make_tokenizer()


class _TokenizeBlocks(_WithTokenizer):
    """Block -> Documents; also outputs the counts of what was read as "counts"."""

    def setup(self):
        super().setup()
        self._segmenter = self._job.make_segmenter()

    def process(self, block):
        counts, options = Counter(bytes=len(block.data)), self._job.options
        texts = read_documents(block, options.text, counts)
        documents = tokenize_documents(texts, self._tokenizer, options.random_seed, segmenter=self._segmenter)
        counts.update(count_tokens(documents, self._tokenizer.unk_id))
        yield TaggedOutput("counts", counts)
        yield documents


@beam.typehints.with_output_types(tuple[int, Any])
class _Make(_WithTokenizer):
    """(unit, its documents) -> (output file, (keys, records)); also outputs their statistics."""

    def setup(self):
        super().setup()
        self._vocabulary = MaskingVocabulary.of_tokenizer(self._tokenizer, self._job.options.phrase_file)

    def process(self, unit):
        number, parts = unit
        documents = arrays.concatenate_documents(list(parts))
        documents = documents.take(np.argsort(documents.keys, kind="stable"))
        for pass_number in range(self._job.options.dupe_factor):
            keys, rows, statistics = make_records(documents, self._job.options, self._vocabulary, pass_number, number)
            yield TaggedOutput("statistics", statistics)
            file = external_sort.find_range(keys, len(self._job.output_files))
            for one in np.unique(file).tolist():
                its = np.flatnonzero(file == one)
                yield one, (keys[its], rows.take(its))


def _read(file, job):
    number, path, form = file
    for block in read_blocks([path], [form], job.options.text):
        yield dataclasses.replace(block, file=number)


def _split_by_unit(documents, of):
    """Documents -> (unit, its documents)."""
    unit = external_sort.find_range(documents.keys, of)
    for number in np.unique(unit).tolist():
        yield number, documents.take(np.flatnonzero(unit == number))


def _add(several):
    """Returns the sum of several counters, or of one `Statistics` or more."""
    several = list(several)
    return functools.reduce(operator.add, several) if several else Counter()


def _number_of_units(counts, job, number_of_files):
    check_text(counts | Counter(files=number_of_files), job.options)
    return number_of_units(counts["tokens"])


def _write_bytes(path, data):
    with FileSystems.create(path, compression_type="uncompressed") as file:
        file.write(data)


def _write(grouped, output_files, names, stamp):
    """Sorts and writes the records of a file: first locally, then next to its final path in `names`."""
    number, pairs = grouped
    pairs = [each for each in pairs if each is not None]
    path = output_files[number]
    check_written(names[number], len(pairs), len(output_files))
    keys, rows = np.concatenate([keys for keys, _ in pairs]), ragged.concatenate_features([rows for _, rows in pairs])
    with tempfile.TemporaryDirectory() as directory:
        here = os.path.join(directory, "records")
        compression = record_features.compression_of(names[number])
        tfrecords.write_records(here, rows.take(np.argsort(keys)), compression, stamp=stamp)
        with open(here, "rb") as source, FileSystems.create(path, compression_type="uncompressed") as target:
            shutil.copyfileobj(source, target, 1 << 20)


def _write_report(counts, statistics, path):
    _write_bytes(path, json.dumps({"counts": counts, "statistics": statistics.to_values()}).encode())


def _parse_report(text):
    """Returns the counts and the `Statistics` of a report."""
    report = json.loads(text)
    return Counter(report["counts"]), Statistics.of_values(report["statistics"])


def _temporary_path(path):
    """Returns a temporary path in the directory of `path`, hidden as in `files.is_temporary` and unique to this job."""
    folder, name = FileSystems.split(path)
    return FileSystems.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
