"""Fine-tune a model for multiple choice (SWAG).

    bert-tf train choice --train_file=train.csv --eval_file=val.csv \\
        --init_checkpoint=demo/weights/minilm --output_dir=out \\
        --do_train --do_eval

Picks the best of several continuations for a context. Run the same command
again to resume an interrupted run.
"""
