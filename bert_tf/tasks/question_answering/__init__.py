"""Fine-tune a model for extractive question answering (SQuAD 1.1, 2.0).

    bert-tf train qa --train_file=train-v1.1.json \\
        --predict_file=dev-v1.1.json --output_dir=out \\
        --init_checkpoint=demo/weights/minilm --do_train --do_predict

Finds the span of a context that answers a question. Run the same command again
to resume an interrupted run.
"""
