"""Predicts for each line of standard input with a model exported for LiteRT: a line of JSON each.

python -m bert_tf.lite MODEL < texts.txt

If an example has several texts, tabs separate them.
"""

import json
import sys

from bert_tf.lite import Predictor


def main():
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m bert_tf.lite MODEL < texts.txt")
    try:
        predict = Predictor(sys.argv[1])
        for line in sys.stdin:
            texts = line.rstrip("\n").split("\t")
            print(json.dumps(predict(tuple(texts) if len(texts) > 1 else texts[0]), ensure_ascii=False), flush=True)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
