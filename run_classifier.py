"""Fine-tunes BERT to classify a text or a pair of texts: `bert-tf train classifier`, from a checkout.

The task is `ClassificationTask` in bert_tf/tasks/classification/task.py.
bert_tf/cli/fine_tuning_command.py hands it to `run_task`, which trains, scores, answers and exports whatever the
task is. docs/guides/text_classification.md says how to use it, and --help what each flag does.
"""

from bert_tf.cli.main import start_program

if __name__ == "__main__":
    start_program("run_classifier")
