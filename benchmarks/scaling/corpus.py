"""A made-up corpus of any size: words drawn from a vocabulary by Zipf's law, in files of Google's format.

    python benchmarks/scaling/corpus.py --vocab_file=vocab.txt --output_dir=corpus --gigabytes=3 [--compressed]

Documents are drawn from a pool of some tens of megabytes, each with a number of its own, so that writing is as fast as
the disk. A file depends only on the seed and its number: a larger corpus begins with the files of a smaller one.
"""

import os
import pathlib

import numpy as np
import pyarrow as pa
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("vocab_file", None, "A token per line; its words of letters are the words of the text.")
flags.DEFINE_string("output_dir", None, "Directory of the text files.")
flags.DEFINE_float("gigabytes", 1, "Size of the text, before compression.")
flags.DEFINE_integer("file_megabytes", 10, "Size of a file, before compression.")
flags.DEFINE_boolean("compressed", False, "Write .zst files.")
flags.DEFINE_integer("seed", 0, "Of the words and their order.")

POOL = 12_000  # documents
RARE_WORDS = 200_000  # two words of the vocabulary as one, which is tokenized into several tokens
WORDS_PER_SENTENCE, SENTENCES_PER_DOCUMENT = 20, 24  # means


def read_words(vocab_file, rng):
    """Returns the words, the most frequent first."""
    tokens = pathlib.Path(vocab_file).read_text("utf-8").split("\n")
    words = [token for token in tokens if len(token) > 1 and token.isascii() and token.isalpha()]
    pairs = rng.integers(0, len(words), (RARE_WORDS, 2)).tolist()
    return np.array(words + [words[one] + words[other] for one, other in pairs], object)


def make_pool(words, rng):
    """Returns documents as bytes: a sentence per line, without a first line and without the blank line at the end."""
    probabilities = 1 / np.arange(1, len(words) + 1)
    cumulated = np.cumsum(probabilities / probabilities.sum())
    documents = []
    for _ in range(POOL):
        lengths = rng.geometric(1 / WORDS_PER_SENTENCE, rng.geometric(1 / SENTENCES_PER_DOCUMENT) + 1) + 2
        drawn = words[np.searchsorted(cumulated, rng.random(lengths.sum()))]
        ends = np.cumsum(lengths)[:-1]
        documents.append("\n".join(f"{' '.join(sentence)} ." for sentence in np.split(drawn, ends)).encode())
    return documents


def write_file(path, number, pool, size):
    """Writes a file of about `size` bytes; returns the number of its bytes before compression."""
    rng = np.random.default_rng([FLAGS.seed, number])
    order = rng.integers(0, len(pool), 2 * size // min(map(len, pool)))
    written, stream = 0, pa.CompressedOutputStream if FLAGS.compressed else None
    with pa.OSFile(path, "wb") as file, stream(file, "zstd") if stream else file as target:
        for index, chosen in enumerate(order.tolist()):
            text = b"document %d of file %d .\n%b\n\n" % (index, number, pool[chosen])
            target.write(text)
            written += len(text)
            if written >= size:
                break
    return written


def main(_):
    rng = np.random.default_rng(FLAGS.seed)
    pool = make_pool(read_words(FLAGS.vocab_file, rng), rng)
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    written, number = 0, 0
    while written < FLAGS.gigabytes * 1e9:
        name = f"{number:06d}.txt{'.zst' if FLAGS.compressed else ''}"
        written += write_file(os.path.join(FLAGS.output_dir, name), number, pool, FLAGS.file_megabytes * 1_000_000)
        number += 1
    print(f"{number} files, {written / 1e9:.2f} GB")


if __name__ == "__main__":
    flags.mark_flags_as_required(["vocab_file", "output_dir"])
    app.run(main)
