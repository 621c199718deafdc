"""Flags of many runs over GLUE: which tasks, seeds and settings."""

from bert_tf.utils.settings import Flag

GLUE = (
    Flag("glue_dir", None, "The folder with GLUE's folders, such as CoLA and RTE. Without it nothing is trained: the "
         "page is made from the runs that are in --output_dir, unless there are --tables."),  # fmt: skip
    Flag("tables", None, "Tables of your own, beside GLUE's tasks or alone: a JSON object, each table's name and its "
         "train_file and eval_file."),  # fmt: skip
    Flag("output_dir", None, "Where the runs and the page go.", required=True),
    Flag("tasks", None, "GLUE's tasks, with commas between them; default: all whose training examples are in "
         "--glue_dir.", "list"),  # fmt: skip
    Flag("init_checkpoint", None, "The weights that every run starts from."),
    Flag("seeds", ["1"], "Every setting is run with each of these seeds.", "list"),
    Flag("grid", "single", "Defaults of the next three flags: one value each, or those that the BERT paper tried.",
         choices=("single", "paper")),  # fmt: skip
    Flag("train_batch_size", None, "Batch sizes to try; default: 32, or the paper's 16,32.", "list"),
    Flag("learning_rate", None, "Rates to try; default: 5e-5, or the paper's 5e-5,3e-5,2e-5.", "list"),
    Flag("num_train_epochs", None, "Epochs to try; default: 3, or the paper's 2,3,4.", "list"),
    Flag("keep_models", "best", "Which weights stay on disk: those of each task's best run, or those of all runs.",
         choices=("best", "all")),  # fmt: skip
    Flag("do_predict", False, "Let each task's best run answer the test file, and make submission.zip for GLUE's "
         "leaderboard.", "bool"),  # fmt: skip
    Flag("compare", None, "Another --output_dir, or the folder of one run: each task's best run here is compared "
         "with the best there by a paired bootstrap, and the seeds of its best setting by a permutation "
         "test."),  # fmt: skip
)
