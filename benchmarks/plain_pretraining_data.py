"""Pretraining records in plain Python, by the algorithm of google-research/bert: the peer of pretraining_data.py.

    python benchmarks/plain_pretraining_data.py --input_file=corpus.txt --vocab_file=vocab.txt --output_file=x.tfrecord

Does what create_pretraining_data.py there does, with the same data structures: all documents as lists of lists of
strings, one `random.Random` for every choice, a dictionary of features for each record. Its faults are the original's:
memory grows with the corpus, and a "random" sentence is of the same document where ten draws found no other one.
Prints a line of JSON: the records written, and the seconds of each stage, imports and vocabulary left out.
"""

import collections
import itertools
import json
import os
import random
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from absl import app, flags
from plain_tokenization import Tokenizer

FLAGS = flags.FLAGS
Example = collections.namedtuple("Example", ["tokens", "segment_ids", "positions", "labels", "is_random_next"])


Options = collections.namedtuple(  # names and defaults of Google's flags
    "Options",
    ["max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "short_seq_prob", "do_whole_word_mask"],
    defaults=[128, 20, 0.15, 0.1, False],
)


def read_documents(path, tokenizer):
    """A document is a list of sentences, a sentence a list of pieces."""
    documents = [[]]
    with tf.io.gfile.GFile(path) as file:
        for line in file:
            line = line.strip()
            if not line:
                documents.append([])
            elif pieces := tokenizer.tokenize(line):
                documents[-1].append(pieces)
    return [document for document in documents if document]


def make_examples(documents, index, options, words, rng):
    """Examples of one document: sentences are gathered up to the target length, then parted into A and B."""
    document, room = documents[index], options.max_seq_length - 3
    target = rng.randint(2, room) if rng.random() < options.short_seq_prob else room
    examples, chunk, length, i = [], [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            split = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            first, second = [], []
            for sentence in chunk[:split]:
                first.extend(sentence)
            is_random_next = len(chunk) == 1 or rng.random() < 0.5
            if is_random_next:
                draw_second(second, documents, index, target - len(first), rng)
                i -= len(chunk) - split  # what was not used begins the next chunk
            else:
                for sentence in chunk[split:]:
                    second.extend(sentence)
            truncate_pair(first, second, room, rng)
            examples.append(make_example(first, second, is_random_next, options, words, rng))
            chunk, length = [], 0
        i += 1
    return examples


def draw_second(second, documents, index, length, rng):
    """Fills `second` from a random sentence of another document on."""
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    document = documents[other]
    for j in range(rng.randint(0, len(document) - 1), len(document)):
        second.extend(document[j])
        if len(second) >= length:
            break


def truncate_pair(first, second, room, rng):
    """Takes from the longer one, at either end by chance, until both fit."""
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def make_example(first, second, is_random_next, options, words, rng):
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    segment_ids = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    return Example(*mask(tokens, segment_ids, options, words, rng), is_random_next)


def mask(tokens, segment_ids, options, words, rng):
    """Returns the masked tokens, the segment ids, and positions and labels of what was masked, in order."""
    candidates = []
    for i, token in enumerate(tokens):
        if token == "[CLS]" or token == "[SEP]":
            continue
        if options.do_whole_word_mask and candidates and token.startswith("##"):
            candidates[-1].append(i)
        else:
            candidates.append([i])
    rng.shuffle(candidates)
    number = min(options.max_predictions_per_seq, max(1, round(len(tokens) * options.masked_lm_prob)))
    masked, chosen = list(tokens), []
    for group in candidates:
        if len(chosen) >= number:
            break
        if len(chosen) + len(group) > number:
            continue
        for i in group:
            if rng.random() < 0.8:
                masked[i] = "[MASK]"
            elif rng.random() >= 0.5:
                masked[i] = words[rng.randint(0, len(words) - 1)]
            chosen.append((i, tokens[i]))
    chosen.sort()
    return masked, segment_ids, [i for i, _ in chosen], [label for _, label in chosen]


def serialize(example, tokenizer, options):
    """The bytes of a tf.train.Example with Google's features."""
    length, predictions = options.max_seq_length, options.max_predictions_per_seq
    labels = tokenizer.ids(example.labels)
    features = {
        "input_ids": integers(padded(tokenizer.ids(example.tokens), length)),
        "input_mask": integers(padded([1] * len(example.tokens), length)),
        "segment_ids": integers(padded(example.segment_ids, length)),
        "masked_lm_positions": integers(padded(example.positions, predictions)),
        "masked_lm_ids": integers(padded(labels, predictions)),
        "masked_lm_weights": floats(padded([1.0] * len(labels), predictions, 0.0)),
        "next_sentence_labels": integers([int(example.is_random_next)]),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def padded(values, length, value=0):
    return values + [value] * (length - len(values))


def integers(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def create(input_file, output_file, tokenizer, options, dupe_factor, seed):
    """Writes the records. Returns {"records": number, "seconds": {stage: seconds}}."""
    rng, times = random.Random(seed), [time.perf_counter()]
    documents = read_documents(input_file, tokenizer)
    times.append(time.perf_counter())
    rng.shuffle(documents)
    words, examples = list(tokenizer.vocab), []
    for _ in range(dupe_factor):
        for index in range(len(documents)):
            examples.extend(make_examples(documents, index, options, words, rng))
    rng.shuffle(examples)
    times.append(time.perf_counter())
    with tf.io.TFRecordWriter(output_file) as writer:
        for example in examples:
            writer.write(serialize(example, tokenizer, options))
    times.append(time.perf_counter())
    seconds = [end - start for start, end in itertools.pairwise(times)]
    stages = ("reading and tokenizing", "examples and masks", "writing")
    return {"records": len(examples), "seconds": dict(zip(stages, seconds, strict=True))}


def define_flags():
    flags.DEFINE_string("input_file", None, "A sentence a line, a blank line between documents.", required=True)
    flags.DEFINE_string("output_file", None, "Where the records go.", required=True)
    flags.DEFINE_string("vocab_file", None, "A piece a line.", required=True)
    flags.DEFINE_bool("do_lower_case", True, "Also strips accents.")
    flags.DEFINE_integer("max_seq_length", 128, "Pieces in a row.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked pieces in a row, at most.")
    flags.DEFINE_integer("random_seed", 12345, "Of everything that is drawn.")
    flags.DEFINE_integer("dupe_factor", 10, "Passes over the corpus.")
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of pieces masked.")
    flags.DEFINE_float("short_seq_prob", 0.1, "Share of documents with a random shorter target length.")
    flags.DEFINE_bool("do_whole_word_mask", False, "Masks all pieces of a word or none.")


def main(_):
    tokenizer = Tokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    options = Options(**{name: FLAGS[name].value for name in Options._fields})
    made = create(FLAGS.input_file, FLAGS.output_file, tokenizer, options, FLAGS.dupe_factor, FLAGS.random_seed)
    print(json.dumps(made))


if __name__ == "__main__":
    define_flags()
    app.run(main)
