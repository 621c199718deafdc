"""What becomes of SQuAD's own answers on the way through word pieces and back, before any model has a say.

    python benchmarks/squad_gold_answers.py --data_file=dev-v1.1.json --vocab_dir=minilm --output_file=rest.json

Each answer that a window holds is turned into its first and last piece, and these into text. Scored against the answer
itself, and, of the first answer of each question, against all answers of the question, as predictions are.
"""

import dataclasses
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
from absl import app, flags

from bert_tf.evaluation.squad import normalize, score_squad
from bert_tf.evaluation.squad_files import References
from bert_tf.tasks.question_answering.data import SquadExamples, read_squad
from bert_tf.tasks.question_answering.encoding import encode_squad
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from bert_tf.utils.files import write_text

FLAGS = flags.FLAGS


def each_answer(examples: SquadExamples) -> SquadExamples:
    """Returns an example for every different answer of every question; ids are those of the questions and /0, /1."""
    taken = [
        (i, k) for i, answers in enumerate(examples.answers) for k, a in enumerate(answers) if a not in answers[:k]
    ]
    columns = {
        field.name: [getattr(examples, field.name)[i] for i, _ in taken]
        for field in dataclasses.fields(examples)
        if field.name not in ("path", "golds")
    }
    columns["ids"] = [f"{examples.ids[i]}/{k}" for i, k in taken]
    columns["answers"] = [[examples.answers[i][k]] for i, k in taken]
    return dataclasses.replace(examples, golds=None, **columns)


def recovered(tokenizer, examples: SquadExamples, max_seq_length=384, doc_stride=128, max_query_length=64) -> dict:
    """Returns {id: text of the pieces that are the targets}, of the examples whose answer some window holds whole."""
    rows = encode_squad(tokenizer, examples, max_seq_length, doc_stride, max_query_length, with_answers=True)
    first, last = (rows.targets[f"{side}_positions"] for side in ("start", "end"))
    starts = rows.origin.starts.flat[rows.splits[:-1] + first]
    ends = rows.origin.ends.flat[rows.splits[:-1] + last]
    held = np.flatnonzero(first)
    return {examples.ids[i]: examples.contexts[i][starts[row] : ends[row]]
            for row, i in zip(held, rows.origin.example[held], strict=True)}  # fmt: skip


def compare(tokenizer, path) -> tuple[dict, list[dict]]:
    """Returns the scores, and the answers that are not their old selves as `exact` counts it, or in no window."""
    examples = read_squad(path, with_answers=True)
    answers = each_answer(examples)
    texts = recovered(tokenizer, answers)
    whole = {name: given[0][0] for name, given in zip(answers.ids, answers.answers, strict=True)}
    alone = {name: [whole[name]] for name in texts}
    firsts = {name.removesuffix("/0"): text for name, text in texts.items() if name.endswith("/0")}
    golds = {name: [text for text, _ in given] for name, given in zip(examples.ids, examples.answers, strict=True)}
    scores = {
        "answers": score_squad(References(alone, False, path), texts),
        "questions": score_squad(References({name: golds[name] for name in firsts}, False, path), firsts),
        "in_no_window": len(answers) - len(texts),
    }
    rest = [
        {"id": name, "answer": text, "recovered": texts.get(name)}
        for name, text in whole.items()
        if name not in texts or normalize(text) != normalize(texts[name])
    ]
    return scores, rest


def main(_):
    scores, rest = compare(WordPieceTokenizer.from_directory(FLAGS.vocab_dir), FLAGS.data_file)
    print(json.dumps(scores, indent=2))
    write_text(FLAGS.output_file, json.dumps(rest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    flags.DEFINE_string("data_file", None, "A file in SQuAD's format with answers.", required=True)
    flags.DEFINE_string("vocab_dir", None, "A checkpoint's folder, with vocab.txt.", required=True)
    flags.DEFINE_string("output_file", None, "Where the list of the rest goes, JSON.", required=True)
    app.run(main)
