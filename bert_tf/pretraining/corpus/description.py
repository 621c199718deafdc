"""What `pretrain data` writes of a corpus: metadata in each record file, and the description next to them."""

import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile

from bert_tf.pretraining.record_files import DESCRIPTION, VOCABULARY
from bert_tf.pretraining.record_metadata import RecordMetadata, tokenizer_fingerprint, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import added_tokens_config
from bert_tf.tokenization.letter_case import case_settings
from bert_tf.tokenization.table_registry import save_tables
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, config_text
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils.package_versions import package_versions
from bert_tf.utils.progress import Countdown
from bert_tf.utils.shards import set_name

PACKAGES = ("numpy", "tensorflow", "tensorflow-text", "sentencex")
_LISTED = 1000  # maximum number of sources to list
_READ_BYTES = 1 << 22


def metadata_of_job(job) -> RecordMetadata:
    """Returns the metadata of a `job.CorpusJob`, for the first record of each of its files."""
    tables, masking = job.tables, None if job.options.dynamic_masking else job.options.masking
    fingerprints = vocabulary_fingerprint(tables.vocab), tokenizer_fingerprint(tables)
    strip_accents = getattr(tables, "strip_accents", False)  # only WordPiece tokenizers have this setting
    return RecordMetadata(*fingerprints, tables.do_lower_case, strip_accents, job.options.sentence_objective, masking)


def hash_sources(paths: list[str]) -> dict:
    """Returns the paths, sizes and SHA-256 of text files, for JSON.

    At most a thousand files are listed; "sha256" is that of all their hashes, one per line.
    """
    listed, size, total = [], 0, hashlib.sha256()
    with Countdown("Hashing the text", "MB", sum(map(os.path.getsize, paths)) / 1e6) as progress:
        for number, path in enumerate(paths):
            digest, before = hashlib.sha256(), size
            with open(path, "rb") as file:
                while data := file.read(_READ_BYTES):
                    digest.update(data)
                    size += len(data)
                    progress.advance(len(data) / 1e6)
            total.update(b"\n" * (number > 0) + digest.hexdigest().encode())
            if number < _LISTED:
                listed.append({"path": path, "bytes": size - before, "sha256": digest.hexdigest()})
    return {"files": len(paths), "bytes": size, "sha256": total.hexdigest(), "each": listed}


def describe_corpus(job, sizes: dict[str, int], statistics, sources: dict) -> dict[str, bytes]:
    """Returns {path: contents} of the files to write into each directory of record files.

    Args:
        job: a `job.CorpusJob`.
        sizes: {path: bytes} sizes of its output files.
        statistics: a `statistics.Statistics` statistics of all records.
        sources: the result of `hash_sources`.
    """
    metadata = metadata_of_job(job)
    options = dataclasses.asdict(job.options)
    text = options.pop("text")
    values = {
        "rows": statistics.rows,
        "examples": statistics.examples,
        "vocabulary": {
            "file": job.tables.vocab_file,
            "tokens": job.tables.vocab_size,
            "sha256": metadata.vocabulary,
            "tokenizer": job.tables.KIND,
            "tokenizer_sha256": metadata.tokenizer,
            "do_lower_case": metadata.do_lower_case,
            "strip_accents": metadata.strip_accents,
        },
        "options": options | text,
        "sources": sources,
        "versions": package_versions(PACKAGES),
    }
    name, contents = os.path.basename(set_name(job.output_files[0])), {}
    tokenizer = _tokenizer_files(job)
    for folder in dict.fromkeys(map(os.path.dirname, job.output_files)):
        files = {os.path.basename(path): size for path, size in sizes.items() if os.path.dirname(path) == folder}
        stem = os.path.join(folder, name)
        contents |= {os.path.join(stem + VOCABULARY, file): data for file, data in tokenizer.items()}
        description = json.dumps({"files": files, **values}, indent=1, ensure_ascii=False) + "\n"
        contents[stem + DESCRIPTION] = description.encode()
    return contents


def _tokenizer_files(job):
    """Returns {name: contents} of the tokenizer's files; a WordPiece vocabulary that was given alone stays so."""
    tables = job.tables
    if job.model_directory is None:
        settings = case_settings(tables.do_lower_case, tables.strip_accents) | added_tokens_config(job.added_tokens)
        text = {VOCAB_FILE: Vocabulary.read(job.vocab_file).text, CONFIG_FILE: config_text("BertTokenizer", settings)}
        return {name: contents.encode() for name, contents in text.items()}
    with tempfile.TemporaryDirectory() as folder:
        save_tables(tables, folder)
        return {name: pathlib.Path(folder, name).read_bytes() for name in sorted(os.listdir(folder))}
