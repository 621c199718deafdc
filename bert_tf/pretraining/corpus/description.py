"""What create_pretraining_data writes of a corpus: metadata in each record file, and the description next to them."""

import dataclasses
import hashlib
import json
import os

from bert_tf.pretraining.record_files import DESCRIPTION, VOCABULARY
from bert_tf.pretraining.record_metadata import RecordMetadata, vocabulary_fingerprint
from bert_tf.tokenization.added_tokens import added_tokens_config, names_with_added
from bert_tf.tokenization.letter_case import case_settings
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
