"""Fine-tunes BERT to classify a text or a pair of texts, scores it, and answers for new texts.

    python run_classifier.py --train_file=train.tsv --eval_file=dev.tsv --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --helpfull; docs/run_classifier.md.
"""

from bert_tf import flags

flags.define_model()
flags.define_run()
flags.define_classifier_data()
flags.define_export(model=False)
flags.define_google_tpu()
FLAGS = flags.FLAGS


def main():
    from bert_tf.data import classification as data
    from bert_tf.evaluation.results import write_results
    from bert_tf.export.trained import export_trained
    from bert_tf.load import load_description, save_description
    from bert_tf.tasks.classification import ClassificationTask
    from bert_tf.tasks.registry import save_task
    from bert_tf.training.cluster import by_chief, is_chief
    from bert_tf.training.history import History, given
    from bert_tf.training.job import Job
    from bert_tf.training.output import prepare

    source = data.make_source(
        FLAGS.task_name,
        FLAGS.data_dir,
        {"train": FLAGS.train_file, "dev": FLAGS.eval_file, "test": FLAGS.predict_file},
        header=FLAGS.header,
        text_columns=FLAGS.text_column,
        label_column=FLAGS.label_column,
    )
    wanted = {"train": FLAGS.do_train, "dev": FLAGS.do_eval or bool(FLAGS.keep_best), "test": FLAGS.do_predict}
    texts = source.read([split for split, use in wanted.items() if use])
    strategy, use_xla = flags.apply_run_flags()
    model = load_description(flags.model_paths(), FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case)
    model.check_length(FLAGS.max_seq_length)
    labels = source.labels(texts, model.labels)
    examples = data.tokenize_splits(model.tokenizer, texts, FLAGS.max_seq_length, labels)
    num_examples = len(examples.get("train", ()))
    run = flags.run_config(num_examples, use_xla, {"train_examples": num_examples and examples["train"].fingerprint()})

    def begin():
        prepare(FLAGS.output_dir, anew=FLAGS.overwrite_output_dir)
        save_description(FLAGS.output_dir, model.config, model.tokenizer, labels)
        save_task(FLAGS.output_dir, task, source.text_inputs, FLAGS.max_seq_length)

    with strategy.scope():
        task = ClassificationTask(
            model.config, len(labels), labels=labels, metric_names=source.metrics, rematerialize=FLAGS.rematerialize
        )
        job = Job(task, run, FLAGS.max_seq_length, FLAGS.bucket_by_length, History(FLAGS.output_dir, given(FLAGS)))
        if FLAGS.do_train:
            job.train(examples["train"], examples.get("dev"), FLAGS.keep_best, FLAGS.eval_batch_size, begin)
        else:
            job.restore()
            by_chief(prepare, FLAGS.output_dir)
        if FLAGS.do_eval:
            scores = job.scores(examples["dev"], FLAGS.eval_batch_size)
            by_chief(write_results, FLAGS.output_dir, scores, job.global_step)
            job.history.concluded(job.global_step, scores)
        if FLAGS.do_predict:
            answers = task.answers(job.outputs(examples["test"], FLAGS.predict_batch_size))
            by_chief(data.write_predictions, FLAGS.output_dir, texts["test"], answers, labels)
    if FLAGS.do_export and is_chief(strategy):
        export_trained(FLAGS.output_dir, FLAGS.export_dir, FLAGS.export_dtype)


if __name__ == "__main__":
    flags.run(main)
