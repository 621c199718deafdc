"""Fine-tune a model for text classification or regression.

    bert-tf train classifier --train_file=train.tsv --eval_file=dev.tsv \\
        --init_checkpoint=demo/weights/minilm --output_dir=out \\
        --do_train --do_eval

Classifies single texts or text pairs, with one label, several labels or a
number per example. --do_train, --do_eval, --do_predict and --do_export choose
what is done. Run the same command again to resume an interrupted run.
"""
