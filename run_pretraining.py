"""Pretrains BERT on records of `pretrain data`, from random weights or from a checkpoint.

    python run_pretraining.py --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The task is one of those in bert_tf/pretraining/objectives/: masked words and the next sentence, each next word and so
on.
What is done with it stands in bert_tf/cli/run_pretraining.py; `bert-tf pretrain run` is the same program.
"""

from bert_tf.cli.main import start_program

if __name__ == "__main__":
    start_program("run_pretraining")
