"""Fine-tune a model for named entity recognition (token classification).

    bert-tf train tagger --train_file=eng.train --eval_file=eng.testa \\
        --init_checkpoint=demo/weights/minilm --output_dir=out \\
        --do_train --do_eval

Evaluates with entity-level precision, recall and F1, as conlleval computes
them. Run the same command again to resume an interrupted run.
"""
