"""Fine-tunes BERT to answer questions from a text (SQuAD 1.1 and 2.0), scores it, and answers new questions.

    python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json --output_dir=out \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --do_train --do_predict

The same command started again continues a run that was interrupted. All flags: --helpfull; docs/run_squad.md.
"""

from bert_tf import flags

flags.define_model(max_seq_length=384)
flags.define_run()
flags.define_squad()
flags.define_layers()
flags.define_export(model=False)
flags.define_google_tpu()
FLAGS = flags.FLAGS


def main():
    from bert_tf.evaluation.results import write_results
    from bert_tf.export.trained import export_trained
    from bert_tf.load import load_description, save_description
    from bert_tf.tasks.registry import find_task, save_task
    from bert_tf.tasks.squad.answers import write_predictions
    from bert_tf.tasks.squad.run import run as squad
    from bert_tf.tasks.squad.task import QuestionAnsweringTask
    from bert_tf.training.cluster import by_chief, is_chief
    from bert_tf.training.history import History, given
    from bert_tf.training.job import Job
    from bert_tf.training.output import prepare

    strategy, use_xla = flags.apply_run_flags()
    model = load_description(flags.model_paths(), FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case)
    trained = find_task(flags.task_paths(), model.config, QuestionAnsweringTask)
    task = QuestionAnsweringTask(model.config, **flags.squad_options(trained))
    model.check_length(FLAGS.max_seq_length)
    texts = squad.read_splits(flags.squad_files(), FLAGS.version_2_with_negative)
    rows = squad.lay_out(model.tokenizer, texts, FLAGS.max_seq_length, FLAGS.doc_stride, FLAGS.max_query_length)
    run = flags.fine_tuning_run(model.config, rows["train"].tokenized if FLAGS.do_train else None, use_xla)
    kept = (task, squad.TEXT_INPUTS, FLAGS.max_seq_length)

    def begin():
        prepare(FLAGS.output_dir, anew=FLAGS.overwrite_output_dir)
        save_description(FLAGS.output_dir, model.config, model.tokenizer)
        save_task(FLAGS.output_dir, *kept)

    def answers(split, size, log=False):
        return squad.find_answers(task, rows[split], texts[split], job.outputs(rows[split].tokenized, size), log)

    with strategy.scope():
        history, scores, threshold = History(FLAGS.output_dir, given(FLAGS)), {}, task.null_score_diff_threshold
        job = Job(task, run, FLAGS.max_seq_length, FLAGS.bucket_by_length, history)
        if FLAGS.do_train:
            job.train(rows["train"].tokenized, on_begin=begin)
        else:
            job.restore()
            by_chief(prepare, FLAGS.output_dir)
        if FLAGS.do_eval:
            scores = squad.score(texts["dev"], answers("dev", FLAGS.eval_batch_size), threshold, "eval_")
            if "eval_best_f1_thresh" in scores:  # SQuAD 2.0: it is kept with the model
                task.null_score_diff_threshold = scores["eval_best_f1_thresh"]
                threshold = flags.squad_options(kept)["null_score_diff_threshold"]
                by_chief(save_task, FLAGS.output_dir, *kept)
        if FLAGS.do_predict:
            said = answers("test", FLAGS.predict_batch_size, FLAGS.verbose_logging)
            by_chief(write_predictions, FLAGS.output_dir, texts["test"], said, threshold)
            scores |= squad.score(texts["test"], said, threshold, "predict_" if FLAGS.do_eval else "eval_")
        if scores:
            by_chief(write_results, FLAGS.output_dir, scores, job.global_step, "")
            history.concluded(job.global_step, scores)
    if FLAGS.do_export and is_chief(strategy):
        task.null_score_diff_threshold = threshold  # the export answers as this run does
        save_task(FLAGS.output_dir, *kept)
        export_trained(FLAGS.output_dir, FLAGS.export_dir, FLAGS.export_dtype)


if __name__ == "__main__":
    flags.run(main)
