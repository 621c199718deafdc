"""Pretrain BERT on records made with create_pretraining_data.

    bert-tf run_pretraining --input_file='records/train-*' \\
        --eval_file=records/held_out.tfrecord --output_dir=out \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
        --do_train --do_eval

Starts from random weights, or from --init_checkpoint. Run the same command
again to resume an interrupted run.
"""

from bert_tf.cli.common_flags import DISTILLATION_TEMPERATURE, GOOGLE_TPU, MASKING, MODEL, TRAINING
from bert_tf.cli.program import in_flags
from bert_tf.runs.pretraining_recipes import RECIPES
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, with_attributes

_VOCABULARY = "Vocabulary file. Default: the one next to --init_checkpoint, otherwise the one next to the records."
FLAGS = (
    *with_attributes(MODEL, "vocab_file", help=_VOCABULARY),
    *TRAINING,
    Flag(
        "input_file", None,
        "Training records made with create_pretraining_data: files, directories or patterns.",
        "list",
    ),
    Flag(
        "eval_file", None,
        "Held-out records, evaluated at each checkpoint and with --do_eval. Default: none at checkpoints, "
        "--input_file with --do_eval.",
        "list",
    ),
    Flag(
        "phases", None,
        "Training phases in order, with sequences of different lengths: LENGTHxSTEPS, or a share of "
        "--num_train_steps, and @BATCH if the batch size differs, such as 128x90%,512x10%@8. Each phase reads the "
        "files of --input_file whose sequences have its length.",
    ),
    Flag(
        "recipe", None,
        "Recipe by name: sets the flags that are not given, and logs their values.",
        choices=tuple(RECIPES),
    ),
    Flag("num_train_steps", 100_000, "Total number of training steps.", "integer", low=1),
    Flag("num_warmup_steps", 10_000, "Number of steps during which the learning rate warms up.", "integer", low=0),
    Flag("max_eval_steps", 100, "Maximum number of batches per evaluation.", "integer", low=1),
    Flag(
        "optimizer", "adamw",
        "Optimizer: BERT's Adam (adamw), or LAMB for batches of thousands.",
        choices=names.OPTIMIZERS,
    ),
    Flag(
        "start_embeddings", "random",
        "Initial word embeddings of a new model. random; neighbours: made from the co-occurrence of tokens in the "
        "records.",
        choices=names.START_EMBEDDINGS,
    ),
    Flag(
        "start_positions", "random",
        "Initial position embeddings of a new model. random; sinusoidal: sines and cosines.",
        choices=names.START_POSITIONS,
    ),
    Flag(
        "embedding_lr_factor", 1.0,
        "Learning rate of the word embeddings, relative to that of all other weights. 0 freezes them, which makes "
        "steps faster.",
        "float", low=0, high=1,
    ),
    Flag(
        "average_weights", 0.0,
        "Weight averaging: the result is a moving average of the weights, as old as their mean over this share of "
        "the steps so far, such as 0.1; training continues from the weights themselves. 0 turns it off.",
        "float", low=0, high=1,
    ),
    Flag(
        "objective", "masked_lm",
        "Pretraining objective. masked_lm: masked language modeling, also with the masks and sentences of albert, "
        "roberta or ernie; left_to_right: causal language modeling; electra: replaced-token detection against a "
        "small generator; distillation: matching the representations of --teacher.",
        choices=names.OBJECTIVES,
    ),
    Flag(
        "generator_size", 0.25,
        "With --objective=electra: width, heads and feed-forward width of the generator, as a share of the model's.",
        "float",
    ),
    Flag(
        "dropout_prob", None,
        "Dropout rate in pretraining; the saved model keeps the rate of its configuration, for fine-tuning. Default: "
        "the rate of the configuration.",
        "float", low=0, high=0.99,
    ),
    Flag(
        "skip_bad_steps", True,
        "Skip and count a step whose loss is not finite or spikes, and go back to a checkpoint after 20 in a row.",
        "bool",
    ),
    Flag(
        "dry_run", False,
        "Report whether training fits, without training: parameters, memory, tokens per step.",
        "bool",
    ),
    Flag("teacher", None, "With --objective=distillation: teacher model, with the vocabulary of the records."),
    Flag(
        "distillation_losses", ["query_relations", "key_relations", "value_relations"],
        "Distillation losses, each with a weight after a colon if it is not 1: "
        f"{', '.join(names.DISTILLATION_LOSSES)}.",
        "list",
    ),
    DISTILLATION_TEMPERATURE,
    Flag(
        "teacher_layer", None,
        "Layer of the teacher whose attention and relations are matched, 1 being the lowest. Default: its last "
        "layer.",
        "integer", low=1,
    ),
    Flag(
        "relation_heads", None,
        "Number of relation heads that queries, keys and values are split into to be compared with each other. "
        "Default: the number of the teacher's attention heads.",
        "integer", low=1,
    ),
    *with_attributes(
        MASKING,
        "max_predictions_per_seq",
        help="Maximum number of masked tokens per sequence: that of the records, or for records without masks "
        "(create_pretraining_data --dynamic_masking) the number to draw.",
    ),
    *GOOGLE_TPU,
)


def main(settings):
    """Trains and scores, or says whether the training would fit."""
    from bert_tf.cli.next_command import log_after_pretraining
    from bert_tf.runs.pretrain import pretrain
    from bert_tf.training.distribution import is_chief

    run = pretrain(settings, lambda text: print(in_flags(text, (flag.name for flag in FLAGS))))
    if run and settings.do_train and is_chief(run.strategy):
        log_after_pretraining(settings, run.trainer.global_step)
