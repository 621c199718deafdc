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
    import tensorflow as tf

    from bert_tf.evaluation.results import write_results
    from bert_tf.load import load_description, save_description
    from bert_tf.tasks.pretraining import PretrainingTask, next_tokens
    from bert_tf.training.cluster import by_chief
    from bert_tf.training.guard import order_seed
    from bert_tf.training.history import History, given
    from bert_tf.training.output import prepare
    from bert_tf.training.stream_job import StreamJob
    from bert_tf.training.will_it_fit import available_memory, describe, warn_if_too_large

    strategy, use_xla = flags.apply_run_flags()
    plan = flags.pretraining_plan()
    held_out = flags.held_out_records(plan)
    model = load_description(flags.model_paths(), FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case)
    model.config = flags.config_for_objective(model.config)
    causal = model.config.is_decoder
    model.check_length(max(*plan.lengths, held_out.max_seq_length))
    sizes = min(model.config.vocab_size, model.tokenizer.vocab_size), model.config.type_vocab_size
    plan, held_out = plan.for_model(*sizes), held_out.for_model(*sizes)
    masks = None if causal else flags.masks_for(model.tokenizer.vocab, [*plan.all_records, held_out])
    foretold = tf.function(next_tokens) if causal else lambda batch: batch

    def begin(built):
        warn_if_too_large(flags.largest_step(plan, model.config, built.count_params()), available_memory())
        prepare(FLAGS.output_dir, anew=FLAGS.overwrite_output_dir)
        save_description(FLAGS.output_dir, model.config, model.tokenizer)

    def batches(start, rollbacks=0):
        return map(foretold, plan.batches(order_seed(FLAGS.seed, rollbacks), start, masks))

    def scored():
        draw = masks(held_out, FLAGS.seed) if masks else None
        return map(foretold, held_out.in_order(FLAGS.eval_batch_size, FLAGS.max_eval_steps, draw))

    with strategy.scope():
        run = flags.pretraining_config(plan, model, use_xla)
        sentences = "nsp" if held_out.has_sentences and not causal else "none"
        task = PretrainingTask(model.config, sentences, held_out.packed, FLAGS.rematerialize)
        if FLAGS.dry_run:
            step = flags.largest_step(plan, model.config, task.build_model().count_params())
            print(describe(step, available_memory()))
            return
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
