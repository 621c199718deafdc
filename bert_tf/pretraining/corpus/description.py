"""What create_pretraining_data leaves beside its records, and in each file: of what they were made, and how."""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform

import bert_tf
from bert_tf.pretraining.corpus.options import Options
from bert_tf.pretraining.corpus.statistics import Statistics
from bert_tf.pretraining.records.beside import DESCRIPTION, VOCABULARY
from bert_tf.pretraining.records.origin import Origin, fingerprint
from bert_tf.tokenization.added_tokens import names_with, settings_of
from bert_tf.tokenization.vocabulary import CONFIG_FILE, VOCAB_FILE, Vocabulary, case_settings, config_text
from bert_tf.utils.progress import Countdown
from bert_tf.utils.shards import set_name

_PACKAGES = ("numpy", "tensorflow", "tensorflow-text", "sentencex")
_LISTED = 1000  # sources with their own lines, at most
_READ_BYTES = 1 << 22


def origin_of(pieces: list[str], do_lower_case: bool, strip_accents: bool, options: Options) -> Origin:
    """Returns what each file is to say."""
    masking = None if options.dynamic_masking else options.masking
    return Origin(fingerprint(pieces), do_lower_case, strip_accents, options.sentence_objective, masking)


def sources_of(paths: list[str]) -> dict:
    """Reads the texts through and says which they are, for JSON: their paths, bytes and SHA-256.

    Of more than a thousand files only so many are listed; "sha256" is that of all their hashes, one a line.
    """
    listed, hashes = [], []
    with Countdown("Hashing the text", "MB", sum(map(os.path.getsize, paths)) / 1e6) as progress:
        for path in paths:
            hashes.append(_hash(path, progress))
            listed.append({"path": path, "bytes": os.path.getsize(path), "sha256": hashes[-1]})
    total = hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    return {
        "files": len(paths), "bytes": sum(each["bytes"] for each in listed), "sha256": total, "each": listed[:_LISTED],
    }  # fmt: skip


def texts_beside(job, sizes: dict[str, int], statistics: Statistics, sources: dict) -> dict[str, str]:
    """Returns {path: text} of the files to leave in each folder in which there are record files.

    Args:
        job: a `job.Job`.
        sizes: {path: bytes} of its output files.
        statistics: of all records.
        sources: what `sources_of` returned.
    """
    vocabulary = Vocabulary.read(job.vocab_file)
    name, texts = os.path.basename(set_name(job.output_files[0])), {}
    for folder in dict.fromkeys(map(os.path.dirname, job.output_files)):
        files = {os.path.basename(path): size for path, size in sizes.items() if os.path.dirname(path) == folder}
        its = os.path.join(folder, name)
        texts[os.path.join(its + VOCABULARY, VOCAB_FILE)] = vocabulary.text
        settings = case_settings(job.do_lower_case, job.strips_accents) | settings_of(job.added_tokens)
        texts[os.path.join(its + VOCABULARY, CONFIG_FILE)] = config_text("BertTokenizer", settings)
        values = _values(job, vocabulary, statistics, sources)
        texts[its + DESCRIPTION] = json.dumps({"files": files, **values}, indent=1, ensure_ascii=False) + "\n"
    return texts


def _values(job, vocabulary, statistics, sources):
    names = names_with(vocabulary.pieces, job.added_tokens)
    origin = origin_of(names, job.do_lower_case, job.strips_accents, job.options)
    pieces = {"file": job.vocab_file, "pieces": len(names), "sha256": origin.vocabulary}
    options = dataclasses.asdict(job.options)
    text = options.pop("text")
    return {
        "rows": statistics.rows,
        "examples": statistics.examples,
        "vocabulary": pieces | {"do_lower_case": origin.do_lower_case, "strip_accents": origin.strip_accents},
        "options": options | text,
        "sources": sources,
        "versions": _versions(),
    }


def _versions():
    ours = {"bert_tf": bert_tf.__version__, "python": platform.python_version()}
    return ours | {name: importlib.metadata.version(name) for name in _PACKAGES}


def _hash(path, progress):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            progress.advance(len(data) / 1e6)
    return digest.hexdigest()
