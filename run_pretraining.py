"""Pretrains BERT on records of create_pretraining_data, from random weights or from a checkpoint.

    python run_pretraining.py --input_file='records/train-*' --eval_file=records/held_out.tfrecord \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --helpfull; docs/run_pretraining.md.
"""

from bert_tf import flags

flags.define_model()
flags.define_training()
flags.define_pretraining()
flags.define_google_tpu()
FLAGS = flags.FLAGS


def main():
    from bert_tf.data.pretraining import batches as data
    from bert_tf.evaluation.results import write_results
    from bert_tf.load import load_description, save_description
    from bert_tf.tasks.pretraining import PretrainingTask, next_tokens
    from bert_tf.training.cluster import by_chief
    from bert_tf.training.guard import order_seed
    from bert_tf.training.history import History, given
    from bert_tf.training.output import prepare
    from bert_tf.training.stream_job import StreamJob

    lengths = FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
    train = data.Records.of(FLAGS.input_file, *lengths)
    held_out = data.Records.of(FLAGS.eval_file, *lengths) if FLAGS.eval_file else train
    strategy, use_xla = flags.apply_run_flags()
    model = load_description(flags.model_paths(), FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case)
    model.check_length(FLAGS.max_seq_length)
    causal = FLAGS.objective == "left_to_right"
    run = flags.pretraining_config(use_xla, {"objective": FLAGS.objective, "input_file": train.paths})

    def begin():
        prepare(FLAGS.output_dir, anew=FLAGS.overwrite_output_dir)
        save_description(FLAGS.output_dir, model.config, model.tokenizer)

    def batches(start, rollbacks=0):
        made = train.batches(FLAGS.train_batch_size, order_seed(FLAGS.seed, rollbacks), start)
        return made.map(next_tokens) if causal else made

    def scored():
        made = held_out.in_order(FLAGS.eval_batch_size, FLAGS.max_eval_steps)
        return made.map(next_tokens) if causal else made

    with strategy.scope():
        sentences = "nsp" if train.has_sentences and not causal else "none"
        task = PretrainingTask(model.config, sentences, train.packed, causal, FLAGS.rematerialize)
        job = StreamJob(task, run, History(FLAGS.output_dir, given(FLAGS)), scored, bool(FLAGS.eval_file))
        if FLAGS.do_train:
            job.train(batches, begin)
        else:
            job.restore()
        if FLAGS.do_eval:
            scores = job.scores()
            by_chief(write_results, FLAGS.output_dir, scores, job.global_step, "")
            job.history.concluded(job.global_step, scores)


if __name__ == "__main__":
    flags.run(main)
