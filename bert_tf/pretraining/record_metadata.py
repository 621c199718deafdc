"""Metadata of record files: in the first record of each, and in the files next to them."""

import dataclasses
import glob
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable

import bert_tf
from bert_tf.data import tfrecords
from bert_tf.tokenization.added_tokens import added_tokens_config, names_with_added, read_added_tokens
from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, case_settings, config_text
from bert_tf.tokenization.vocabulary import VOCAB_FILE, Vocabulary
from bert_tf.utils.files import brief, files_below
from bert_tf.utils.json_files import read_object
from bert_tf.utils.names import SPECIAL_TOKENS
from bert_tf.utils.progress import Countdown
from bert_tf.utils.shards import set_name

_LARGEST = 10_000  # bytes
_TYPES = {
    "vocabulary": str, "do_lower_case": bool, "strip_accents": bool, "sentence_objective": str,
    "masking": (str, type(None)),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RecordMetadata:
    """The vocabulary, letter case, objective and masking that records were made with.

    Attributes:
        vocabulary: `vocabulary_fingerprint` of the tokens whose ids the rows hold.
        do_lower_case, strip_accents: what became of the text before it was cut into tokens.
        sentence_objective: "nsp", "sop" or "none": what the label 1 of two texts means, if there are two.
        masking: how it was masked: "token" and so on; None: it was not.
    """

    vocabulary: str
    do_lower_case: bool
    strip_accents: bool
    sentence_objective: str
    masking: str | None

    @classmethod
    def of(cls, path: str | os.PathLike) -> "RecordMetadata | None":
        """Returns the metadata of a file; None where another program wrote it, without any.

        Raises:
            ValueError: the file is none of records, or what it says cannot be understood.
        """
        data = tfrecords.read_stamp(path)
        return None if data is None else cls.of_stamp(path, data)

    @classmethod
    def of_stamp(cls, path: str | os.PathLike, data: bytes) -> "RecordMetadata":
        """Returns the metadata in a record's feature MADE_WITH, of which it reads what it knows.

        Raises:
            ValueError: it cannot be understood.
        """
        try:
            values = json.loads(data) if len(data) <= _LARGEST else None
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or any(not isinstance(values.get(name), kind) for name, kind in _TYPES.items()):
            raise ValueError(
                f"{os.fspath(path)} must state how it was made in {tfrecords.MADE_WITH}, a feature of its first "
                f"record. Received {brief(data[:200])}; create the records again."
            )
        return cls(**{name: values[name] for name in _TYPES})

    def stamp(self) -> bytes:
        """Returns what `tfrecords.write_records` takes as `stamp`."""
        import tensorflow as tf  # here, so that a program which only reads what lies next to records need not wait

        data = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":")).encode()
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
        features = tf.train.Features(feature={tfrecords.MADE_WITH: feature})
        return tf.train.Example(features=features).SerializeToString(deterministic=True)


def vocabulary_fingerprint(tokens: list[str]) -> str:
    """Returns the SHA-256 of a vocabulary, in hexadecimal: of its tokens in their order, one a line."""
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


# === Files next to records ===
# A description of the run that made them, for people too, and its vocabulary.
#
#     train-00000-of-00002.tfrecord.gz  train-00001-of-00002.tfrecord.gz
#     train_records.json                what was made of what, and how many bytes each file has
#     train_vocabulary/                 vocab.txt and tokenizer_config.json


DESCRIPTION, VOCABULARY = "_records.json", "_vocabulary"  # after the name that the files of one output share
_OTHERS = (".json", ".txt", ".html", ".tmp")  # other files next to records: metadata, reports, unfinished files
_KIND = "the JSON metadata that create_pretraining_data writes next to its records"
_REMEDY = "copy it again, or remove it, which means that the files are no longer checked for completeness"


def find_record_files(patterns: list[str], without: Iterable[str] = ()) -> list[str]:
    """Returns the record files that `patterns` name, each once, in the order of the patterns, sorted within each.

    Args:
        patterns: each a file, a glob (`**` is any depth) or a folder: all files below it but hidden ones and those that
            are no records by the end of their names. A glob may match folders, too.
        without: files to leave out where a folder or a glob brings them.

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
    """Raises ValueError where the description next to a file says that it has another number of bytes.

    A file that was cut off between two records looks like a whole one by itself.
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
    """Returns how many rows the record files of one output have together, of which `path` is one.

    Raises:
        ValueError: the description next to them does not say.
    """
    source = set_name(os.fspath(path)) + DESCRIPTION
    rows = read_object(source, _KIND, _REMEDY).get("rows")
    if not isinstance(rows, int):
        raise ValueError(f'{source} must state the number of sequences in "rows". Received: {brief(rows)}; {_REMEDY}.')
    return rows


def find_vocabulary(path: str, metadata: RecordMetadata) -> str | None:
    """Returns the vocab.txt that lies next to a record file and made it, where it is still what it was; else None."""
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
    """Returns {path of a description in a folder: {name of a record file: its bytes}}."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), f"*{DESCRIPTION}")))
    return {path: _sizes(path, read_object(path, _KIND, _REMEDY).get("files")) for path in paths}


def _sizes(path, files):
    if not isinstance(files, dict) or not all(isinstance(size, int) for size in files.values()):
        raise ValueError(
            f'{path} must state the size of each file in bytes in "files". Received: {brief(files)}; {_REMEDY}.'
        )
    return files


# === What create_pretraining_data writes ===
# The metadata in each of its files, and the description next to them.


_PACKAGES = ("numpy", "tensorflow", "tensorflow-text", "sentencex")
_LISTED = 1000  # sources with their own lines, at most
_READ_BYTES = 1 << 22


def metadata_of_job(job) -> RecordMetadata:
    """Returns the metadata of a `job.CorpusJob`, which stands in the first record of each of its files."""
    names = names_with_added(Vocabulary.read(job.vocab_file).tokens, job.added_tokens)
    masking = None if job.options.dynamic_masking else job.options.masking
    return RecordMetadata(
        vocabulary_fingerprint(names), job.do_lower_case, job.strips_accents, job.options.sentence_objective, masking
    )


def hash_sources(paths: list[str]) -> dict:
    """Reads the texts through and says which they are, for JSON: their paths, bytes and SHA-256.

    Of more than a thousand files only so many are listed; "sha256" is that of all their hashes, one a line.
    """
    listed = []
    with Countdown("Hashing the text", "MB", sum(map(os.path.getsize, paths)) / 1e6) as progress:
        for path in paths:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while data := file.read(_READ_BYTES):
                    digest.update(data)
                    progress.advance(len(data) / 1e6)
            listed.append({"path": path, "bytes": os.path.getsize(path), "sha256": digest.hexdigest()})
    total = hashlib.sha256("\n".join(each["sha256"] for each in listed).encode()).hexdigest()
    return {
        "files": len(paths), "bytes": sum(each["bytes"] for each in listed), "sha256": total, "each": listed[:_LISTED],
    }  # fmt: skip


def describe_corpus(job, sizes: dict[str, int], statistics, sources: dict) -> dict[str, str]:
    """Returns {path: text} of the files to leave in each folder in which there are record files.

    Args:
        job: a `job.CorpusJob`.
        sizes: {path: bytes} of its output files.
        statistics: a `statistics.Statistics` of all records.
        sources: what `hash_sources` returned.
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
            "pieces": tokens,
            "sha256": metadata.vocabulary,
            "do_lower_case": metadata.do_lower_case,
            "strip_accents": metadata.strip_accents,
        },
        "options": options | text,
        "sources": sources,
        "versions": {
            "bert_tf": bert_tf.__version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
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
