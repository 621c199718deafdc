"""Fine-tunes BERT to answer questions from a text, as in SQuAD: `bert-tf train qa`, from a checkout.

The task is `QuestionAnsweringTask` in bert_tf/tasks/question_answering/task.py.
bert_tf/cli/fine_tuning_command.py hands it to `run_task`, which trains, scores, answers and exports whatever the
task is. docs/guides/question_answering.md says how to use it, and --help what each flag does.
"""

from bert_tf.cli.main import start_program

if __name__ == "__main__":
    start_program("run_squad")
