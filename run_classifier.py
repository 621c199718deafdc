"""Fine-tunes BERT to classify a text or a pair of texts, scores it, and answers for new texts.

    python run_classifier.py --train_file=train.tsv --eval_file=dev.tsv --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=out --do_train --do_eval

The same command started again continues a run that was interrupted. All flags: --helpfull; docs/run_classifier.md.
"""

from bert_tf import flags

flags.define_model()
flags.define_run()
flags.define_classifier_data()
flags.define_layers()
flags.define_loss()
flags.define_long_text()
flags.define_export(model=False)
flags.define_google_tpu()
FLAGS = flags.FLAGS


def main():
    from bert_tf.export.trained import export_trained
    from bert_tf.glue.submission import FILES
    from bert_tf.load import load_description, save_description
    from bert_tf.tasks.classification.examples import tokenize_splits
    from bert_tf.tasks.classification.task import ClassificationTask
    from bert_tf.tasks.classified import Classified
    from bert_tf.tasks.registry import find_task, save_task
    from bert_tf.training.cluster import by_chief, is_chief
    from bert_tf.training.history import History, given
    from bert_tf.training.job import Job
    from bert_tf.training.output import prepare

    strategy, use_xla = flags.apply_run_flags()
    model = load_description(flags.model_paths(), FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case)
    before = find_task(flags.task_paths(), model.config)
    trained = None if FLAGS.do_train else before
    source = flags.classifier_source(trained)
    model.check_length(FLAGS.max_seq_length)
    texts = source.read(flags.classifier_splits())
    labels = source.labels(texts, model.labels)
    settings = flags.classifier_settings(source, labels, texts.get("train"), before)
    rows = tokenize_splits(model.tokenizer, texts, FLAGS.max_seq_length, labels, source.problem, settings["windows"])
    run = flags.classifier_run(model.config, rows.get("train"), settings, use_xla)
    task = ClassificationTask(model.config, **settings, metric_names=source.metrics, every_window=use_xla)
    done = Classified(FLAGS.output_dir, task, source, texts)

    def save():
        save_task(FLAGS.output_dir, task, *(trained[1:] if trained else (source.text_inputs, FLAGS.max_seq_length)))

    def begin():
        prepare(FLAGS.output_dir, FLAGS.overwrite_output_dir, FILES)
        save_description(FLAGS.output_dir, model.config, model.tokenizer, labels)
        save()

    with strategy.scope():
        job = Job(task, run, FLAGS.max_seq_length, FLAGS.bucket_by_length, History(FLAGS.output_dir, given(FLAGS)))
        if FLAGS.do_train:
            choice = (FLAGS.keep_best, FLAGS.eval_batch_size)
            job.train(rows["train"], rows.get("dev"), *choice, begin, FLAGS.early_stopping)
        else:
            job.restore()
            by_chief(prepare, FLAGS.output_dir)
        if FLAGS.do_eval:
            found = {s: job.outputs_and_losses(rows[s], FLAGS.eval_batch_size) for s in done.splits("dev")}
            scores = done.scores(found, rows, FLAGS.fit_temperature)
            by_chief(done.write_scored, found, scores, job.global_step)
            job.history.concluded(job.global_step, scores)
        if FLAGS.fit_temperature:
            by_chief(save)
        for split in done.splits("test"):
            by_chief(done.write_answers, split, job.outputs(rows[split], FLAGS.predict_batch_size))
    if FLAGS.do_export and is_chief(strategy):
        export_trained(FLAGS.output_dir, FLAGS.export_dir, FLAGS.export_dtype)


if __name__ == "__main__":
    flags.run(main)
