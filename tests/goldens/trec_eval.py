"""What trec_eval says of random runs with ties: PYTHON_WITH_PYTREC_EVAL tests/goldens/trec_eval.py RUNS

Prints, for the runs in a JSON file, the metrics of each, as JSON. A run is [{document: score}, {document: relevance}].
"""

import json
import pathlib
import sys

import pytrec_eval


def metrics(scores, relevances):
    """Returns the reciprocal rank among the first ten, nDCG@10, the average precision and recall@10."""
    evaluator = pytrec_eval.RelevanceEvaluator({"q": relevances}, {"recip_rank", "ndcg_cut.10", "map", "recall.10"})
    found = evaluator.evaluate({"q": scores})["q"]
    rank = found["recip_rank"]
    return [rank if rank > 0.099 else 0.0, found["ndcg_cut_10"], found["map"], found["recall_10"]]


if __name__ == "__main__":
    runs = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps([metrics(*run) for run in runs]))
