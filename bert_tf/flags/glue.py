"""Flags of many runs over GLUE: which tasks, seeds and settings."""

from absl import flags


def define_run_glue():
    """What bert_tf.programs.run_glue runs; the flags of run_classifier.py go behind `--`."""
    flags.DEFINE_string("glue_dir", None, "The folder with GLUE's folders, such as CoLA and RTE. Without it nothing is "
                        "trained: the page is made of the runs that are in --output_dir.")  # fmt: skip
    flags.DEFINE_string("output_dir", None, "Where the runs and the page go.", required=True)
    flags.DEFINE_list("tasks", None, "GLUE's tasks, with commas between them; default: all that --glue_dir has the "
                      "training examples of.")  # fmt: skip
    flags.DEFINE_string("init_checkpoint", None, "The weights that every run starts from.")
    flags.DEFINE_list("seeds", ["1"], "Every setting is run with each of these seeds.")
    flags.DEFINE_enum("grid", "single", ("single", "paper"), "What the next three are by default: one value each, or "
                      "those that the BERT paper tried.")  # fmt: skip
    flags.DEFINE_list("train_batch_size", None, "Batch sizes to try; default: 32, or the paper's 16,32.")
    flags.DEFINE_list("learning_rate", None, "Rates to try; default: 5e-5, or the paper's 5e-5,3e-5,2e-5.")
    flags.DEFINE_list("num_train_epochs", None, "Epochs to try; default: 3, or the paper's 2,3,4.")
    flags.DEFINE_enum("keep_models", "best", ("best", "all"), "Whose weights stay on the disk: of each task the best "
                      "run's, or those of all runs.")  # fmt: skip
    flags.DEFINE_bool("do_predict", False, "Let each task's best run answer the test file, and make submission.zip for "
                      "GLUE's leaderboard.")  # fmt: skip
    flags.DEFINE_string("compare", None, "Another --output_dir, or the folder of one run: each task's best run here is "
                        "held against the best there by a paired bootstrap.")  # fmt: skip
