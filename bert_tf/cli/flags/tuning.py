"""Flags of a search over the flags of another program."""

from bert_tf.utils.settings import Flag

TUNING = (
    Flag("search", None, "What is tried: flags with their values, name=value,value;name=value,value. In place of "
         "values a number may have a range, low..high.", required=True),  # fmt: skip
    Flag("tuning_metric", None, "The score by which a trial is better, as eval_results.txt names it, with or without "
         "eval_: accuracy, f1, loss ...", required=True),  # fmt: skip
    Flag("output_dir", None, "Where the trials and the page go.", required=True),
    Flag("trials", None, "So many trials, drawn at random; default: every combination of the values once.", "integer",
         low=1),  # fmt: skip
    Flag("search_seed", 0, "Of the draw of the trials; a trial's own seed is a flag behind `--`.", "integer", low=0),
    Flag("stages", 1, "Successive halving: all trials are trained for few epochs, and the best of each stage for more "
         "in the next; only the last stage has all epochs. 1: every trial has all.", "integer", low=1),  # fmt: skip
    Flag("reduction_factor", 2, "With --stages: one trial of so many goes on, with so many times the epochs.",
         "integer", low=2),  # fmt: skip
    Flag("keep_models", "best", "Which weights stay on disk: those of the best trial, or those of all.",
         choices=("best", "all")),  # fmt: skip
)
