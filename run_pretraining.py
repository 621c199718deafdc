"""Pretrains BERT on records of create_pretraining_data, from random weights or from a checkpoint.

    python run_pretraining.py --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --helpfull; docs/run_pretraining.md.
"""

from bert_tf import flags

flags.define_pretraining()
flags.define_google_tpu()
FLAGS = flags.FLAGS
