"""Train a reranker (cross-encoder) that scores documents for a query.

    bert-tf train reranker --train_file=train.jsonl --eval_file=dev.jsonl \\
        --init_checkpoint=demo/weights/minilm --output_dir=out \\
        --do_train --do_eval

Ranks the documents of each query; evaluates by MRR@10, nDCG@10 and MAP. Run the
same command again to resume an interrupted run.
"""
