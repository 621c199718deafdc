"""Metadata of record files: in the first record of each, and in files next to them."""

import dataclasses
import glob
import hashlib
import json
import os
from collections.abc import Iterable

from bert_tf.data import record_features
from bert_tf.tokenization.added_tokens import added_tokens_config, names_with_added, read_added_tokens
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, case_settings, config_text
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils.files import brief, files_below
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import SPECIAL_TOKENS
from bert_tf.utils.package_versions import package_versions
from bert_tf.utils.progress import Countdown
from bert_tf.utils.shards import set_name

_LARGEST = 10_000  # bytes
_TYPES = {
    "vocabulary": str, "do_lower_case": bool, "strip_accents": bool, "sentence_objective": str,
    "masking": (str, type(None)),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RecordMetadata:
    """The vocabulary, letter case, objective and masking that records were created with.

    Attributes:
        vocabulary: `vocabulary_fingerprint` of the vocabulary of the rows' ids.
        do_lower_case, strip_accents: the normalization of the text.
        sentence_objective: "nsp", "sop" or "none": the meaning of label 1 of two texts, if there are two.
        masking: the kind of masking, such as "token", or None if not masked.
    """

    vocabulary: str
    do_lower_case: bool
    strip_accents: bool
    sentence_objective: str
    masking: str | None

    @classmethod
    def of(cls, path: str | os.PathLike) -> "RecordMetadata | None":
        """Reads the metadata of a file, or returns None if it has none, because another program wrote it.

        Raises:
            ValueError: the file is not a record file, or its metadata are not valid.
        """
        data = record_features.read_stamp(path)
        return None if data is None else cls.of_stamp(path, data)

    @classmethod
    def of_stamp(cls, path: str | os.PathLike, data: bytes) -> "RecordMetadata":
        """Parses the metadata in a record's feature MADE_WITH, ignoring unknown fields.

        Raises:
            ValueError: the metadata are not valid.
        """
        try:
            values = json.loads(data) if len(data) <= _LARGEST else None
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or any(not isinstance(values.get(name), kind) for name, kind in _TYPES.items()):
            raise ValueError(
                f"{os.fspath(path)} must state how it was made in {record_features.MADE_WITH}, a feature of its first "
                f"record. Received {brief(data[:200])}; create the records again."
            )
        return cls(**{name: values[name] for name in _TYPES})

    def stamp(self) -> bytes:
        """Returns the metadata as the `stamp` for `tfrecords.write_records`."""
        import tensorflow as tf  # imported here, so that programs that only read files next to records need not wait

        data = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
        features = tf.train.Features(feature={record_features.MADE_WITH: feature})
        return tf.train.Example(features=features).SerializeToString(deterministic=True)


def vocabulary_fingerprint(tokens: list[str]) -> str:
    """Returns the hexadecimal SHA-256 of a vocabulary: of its tokens in order, one per line."""
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


# === Files next to records ===
# A human-readable description of the run that created the records, and its vocabulary.
#
#     train-00000-of-00002.tfrecord.gz  train-00001-of-00002.tfrecord.gz
#     train_records.json                inputs, options, results, and the size of each file
#     train_vocabulary/                 vocab.txt and tokenizer_config.json


DESCRIPTION, VOCABULARY = "_records.json", "_vocabulary"  # suffixes to the common name of an output's files
_OTHERS = (".json", ".txt", ".html", ".tmp")  # other files next to records: metadata, reports, unfinished files
_KIND = "the JSON metadata that create_pretraining_data writes next to its records"
_REMEDY = "copy it again, or remove it, which means that the files are no longer checked for completeness"


def find_record_files(patterns: list[str], without: Iterable[str] = ()) -> list[str]:
    """Finds the record files that match `patterns`, without duplicates, in their order and sorted within each.

    Args:
        patterns: each a file, a glob (`**` is any depth) or a directory: all files below it except hidden ones and
            those whose extensions are not those of records. A glob may match directories, too.
        without: files to omit if a directory or glob matches them.

    Raises:
        ValueError: a pattern matches nothing.
    """
    without = set(map(os.path.realpath, without))
    return list(dict.fromkeys(path for pattern in patterns for path in _matches(pattern, without)))


def _matches(pattern, without):
    if os.path.isfile(pattern):
        return [pattern]
    found = [pattern] if os.path.isdir(pattern) else glob.glob(pattern, recursive=True)
    below = (path for match in found for path in (files_below(match) if os.path.isdir(match) else [match]))
    paths = sorted({path for path in below if not path.endswith(_OTHERS)})
    if left := [path for path in paths if os.path.realpath(path) not in without]:
        return left
    none = "contains none" if os.path.isdir(pattern) else "matches none"
    none += " except those of `eval_file`" if paths else ""
    raise ValueError(
        f"No record files found: {pattern!r} {none}. Create some with "
        "python -m bert_tf create_pretraining_data."
    )


def check_whole(paths: list[str]):
    """Raises ValueError if the description next to a file states another size.

    A file truncated between two records cannot otherwise be distinguished from a complete one.
    """
    described = {folder: _descriptions(folder) for folder in {os.path.dirname(path) for path in paths}}
    for path in paths:
        name, size = os.path.basename(path), os.path.getsize(path)
        whole = {source: files[name] for source, files in described[os.path.dirname(path)].items() if name in files}
        if whole and size not in whole.values():
            source = min(whole)
            raise ValueError(
                f"{path} must have {whole[source]:,} bytes according to {source}, but it has {size:,}: it was "
                "truncated, or made again without the files next to it. Copy it again, create all again, or remove "
                f"{source}."
            )


def number_of_rows(path: str | os.PathLike) -> int:
    """Returns the total number of rows of an output's record files, of which `path` is one.

    Raises:
        ValueError: the description next to them does not state it.
    """
    source = set_name(os.fspath(path)) + DESCRIPTION
    rows = read_object(source, _KIND, _REMEDY).get("rows")
    if not isinstance(rows, int):
        raise ValueError(f'{source} must state the number of sequences in "rows". Received: {brief(rows)}; {_REMEDY}.')
    return rows


def find_vocabulary(path: str, metadata: RecordMetadata) -> str | None:
    """Returns the vocab.txt next to a record file that created it, or None if it is missing or was changed."""
    own = os.path.join(set_name(path) + VOCABULARY, VOCAB_FILE)
    there = glob.glob(os.path.join(glob.escape(os.path.dirname(path)), f"*{VOCABULARY}", VOCAB_FILE))
    for candidate in sorted(there, key=lambda candidate: (candidate != own, candidate)):
        vocabulary = Vocabulary.read(candidate)
        parts = os.path.dirname(candidate), vocabulary.tokens, vocabulary.id_of, SPECIAL_TOKENS
        tokens = names_with_added(vocabulary.tokens, read_added_tokens(*parts))
        if vocabulary_fingerprint(tokens) == metadata.vocabulary:
            return candidate
    return None


def _descriptions(folder: str) -> dict[str, dict[str, int]]:
    """Returns {path of a description in a directory: {name of a record file: its size in bytes}}."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{DESCRIPTION}")))
    return {path: _sizes(path, read_object(path, _KIND, _REMEDY).get("files")) for path in paths}


def _sizes(path, files):
    if not isinstance(files, dict) or not all(isinstance(size, int) for size in files.values()):
        raise ValueError(
            f'{path} must state the size of each file in bytes in "files". Received: {brief(files)}; {_REMEDY}.'
        )
    return files


# === What create_pretraining_data writes ===
# The metadata in each output file, and the description next to them.


PACKAGES = ("numpy", "tensorflow", "tensorflow-text", "sentencex")
_LISTED = 1000  # maximum number of sources to list
_READ_BYTES = 1 << 22


def metadata_of_job(job) -> RecordMetadata:
    """Returns the metadata of a `job.CorpusJob`, for the first record of each of its files."""
    names = names_with_added(Vocabulary.read(job.vocab_file).tokens, job.added_tokens)
    masking = None if job.options.dynamic_masking else job.options.masking
    return RecordMetadata(
        vocabulary_fingerprint(names), job.do_lower_case, job.strips_accents, job.options.sentence_objective, masking
    )


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


def describe_corpus(job, sizes: dict[str, int], statistics, sources: dict) -> dict[str, str]:
    """Returns {path: text} of the files to write into each directory of record files.

    Args:
        job: a `job.CorpusJob`.
        sizes: {path: bytes} sizes of its output files.
        statistics: a `statistics.Statistics` statistics of all records.
        sources: the result of `hash_sources`.
    """
    vocabulary, metadata = Vocabulary.read(job.vocab_file), metadata_of_job(job)
    options = dataclasses.asdict(job.options)
    text = options.pop("text")
    case = case_settings(job.do_lower_case, job.strips_accents)
    tokens = len(names_with_added(vocabulary.tokens, job.added_tokens))
    values = {
        "rows": statistics.rows,
        "examples": statistics.examples,
        "vocabulary": {
            "file": job.vocab_file,
            "tokens": tokens,
            "sha256": metadata.vocabulary,
            "do_lower_case": metadata.do_lower_case,
            "strip_accents": metadata.strip_accents,
        },
        "options": options | text,
        "sources": sources,
        "versions": package_versions(PACKAGES),
    }
    name, texts = os.path.basename(set_name(job.output_files[0])), {}
    for folder in dict.fromkeys(map(os.path.dirname, job.output_files)):
        files = {os.path.basename(path): size for path, size in sizes.items() if os.path.dirname(path) == folder}
        stem = os.path.join(folder, name)
        texts[os.path.join(stem + VOCABULARY, VOCAB_FILE)] = vocabulary.text
        config = config_text("BertTokenizer", case | added_tokens_config(job.added_tokens))
        texts[os.path.join(stem + VOCABULARY, CONFIG_FILE)] = config
        texts[stem + DESCRIPTION] = json.dumps({"files": files, **values}, indent=1, ensure_ascii=False) + "\n"
    return texts
