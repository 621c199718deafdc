"""Pretrain BERT on records made with create_pretraining_data.

    bert-tf run_pretraining --input_file='records/train-*' \\
        --eval_file=records/held_out.tfrecord --output_dir=out \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
        --do_train --do_eval

Starts from random weights, or from --init_checkpoint. Run the same command
again to resume an interrupted run.
"""

from bert_tf.cli import program
from bert_tf.cli.checkpoints import save_formats
from bert_tf.cli.common_flags import DISTILLATION_TEMPERATURE, GOOGLE_TPU, MASKING, MODEL, TRAINING
from bert_tf.cli.pretraining_recipes import RECIPES
from bert_tf.utils import names
from bert_tf.utils.settings import Flag, with_attributes

_VOCABULARY = "The vocabulary; default: the one beside --init_checkpoint, else the one beside the records."
FLAGS = (
    *with_attributes(MODEL, "vocab_file", help=_VOCABULARY),
    *TRAINING,
    Flag("input_file", None, "Records of create_pretraining_data to train on: files, folders or patterns.", "list"),
    Flag(
        "eval_file",
        None,
        "Record files that are not trained on, to score on at each checkpoint and in --do_eval; "
        "default: none at checkpoints, --input_file in --do_eval.",
        "list",
    ),
    Flag(
        "phases",
        None,
        "Several kinds of rows, one after the other: LENGTHxSTEPS, or a share of --num_train_steps, "
        "and @BATCH if that differs, such as 128x90%,512x10%@8. Each phase reads the files of --input_file whose "
        "rows have its length.",
    ),
    Flag(
        "recipe",
        None,
        "A recipe by name: it sets the flags that are not given, and the log says to what.",
        choices=tuple(RECIPES),
    ),
    Flag("num_train_steps", 100_000, "Steps in all.", "integer", low=1),
    Flag("num_warmup_steps", 10_000, "Steps in which the rate rises.", "integer", low=0),
    Flag("max_eval_steps", 100, "Most batches per scoring.", "integer", low=1),
    Flag("optimizer", "adamw", "BERT's Adam, or LAMB for batches of thousands.", choices=names.OPTIMIZERS),
    Flag(
        "start_embeddings",
        "random",
        "What the word embeddings of a new model begin as: random, or made from which "
        "tokens stand near each other in the records.",
        choices=names.START_EMBEDDINGS,
    ),
    Flag(
        "start_positions",
        "random",
        "What the position embeddings of a new model begin as: random, or sines and cosines.",
        choices=names.START_POSITIONS,
    ),
    Flag(
        "embedding_lr_factor",
        1.0,
        "The rate of the word embeddings, as a share of that of all else; 0: they stay as "
        "they begin, and steps are faster.",
        "float",
        low=0,
        high=1,
    ),
    Flag(
        "average_weights",
        0.0,
        "The result is a mean of the weights, as old as that over the last steps, this share "
        "of those made, such as 0.1; training goes on from the weights themselves. 0: no mean.",
        "float",
        low=0,
        high=1,
    ),
    Flag(
        "objective",
        "masked_lm",
        "What is learned: masked tokens, also by the rules of ALBERT, RoBERTa or ERNIE "
        "for masks and sentences; each next token from those before it; which tokens a small network filled in "
        "(ELECTRA); or what --teacher makes of the texts.",
        choices=names.OBJECTIVES,
    ),
    Flag(
        "generator_size",
        0.25,
        "With --objective=electra: width, heads and inner width of the network that fills in, "
        "as a share of the model's.",
        "float",
    ),
    Flag(
        "dropout_prob",
        None,
        "Dropout in pretraining; the model keeps that of its configuration, for fine-tuning; "
        "default: that one here too.",
        "float",
        low=0,
        high=0.99,
    ),
    Flag(
        "skip_bad_steps",
        True,
        "Skip a step whose loss is not finite or leaps, count it, and go back to a checkpoint after 20 in a row.",
        "bool",
    ),
    Flag("dry_run", False, "Say whether it fits, and end: parameters, memory, tokens per step.", "bool"),
    Flag("teacher", None, "With --objective=distillation: the model that teaches, with the vocabulary of the records."),
    Flag(
        "distillation_losses",
        ["query_relations", "key_relations", "value_relations"],
        f"What is learned, with a weight after a colon where it is not 1: of {', '.join(names.DISTILLATION_LOSSES)}.",
        "list",
    ),
    DISTILLATION_TEMPERATURE,
    Flag(
        "teacher_layer",
        None,
        "The teacher's layer whose attention and relations are learned, 1 being the lowest; default: its last.",
        "integer",
        low=1,
    ),
    Flag(
        "relation_heads",
        None,
        "Parts into which queries, keys and values are cut to be compared among themselves; "
        "default: as many as the teacher has attention heads.",
        "integer",
        low=1,
    ),
    *with_attributes(
        MASKING,
        "max_predictions_per_seq",
        help="What records were made with; for those without masks (create_pretraining_data --dynamic_masking), the "
        "most masked tokens in one sequence.",
    ),
    *GOOGLE_TPU,
)


def main(settings):
    """Trains and scores, or says whether the training would fit."""
    from bert_tf.cli.pretraining_run import Pretraining, complete
    from bert_tf.cli.reporting import log_after_pretraining
    from bert_tf.training.distribution import is_chief

    settings = complete(settings)
    strategy, use_xla = program.prepare_process(settings)
    pretraining = Pretraining.of(settings)
    batches, scored = pretraining.streams()
    with strategy.scope():
        pretraining.load_teacher()
        run, task = pretraining.run_config(use_xla), pretraining.task()
        if settings.dry_run:
            _print_whether_it_fits(pretraining, task)
            return
        step = _train_and_score(pretraining, task, run, batches, scored)
    save_formats(settings, strategy)
    if settings.do_train and is_chief(strategy):
        log_after_pretraining(settings, step)


def _train_and_score(pretraining, task, run, batches, scored):
    """Returns the step of the result."""
    from bert_tf.training.distribution import by_chief
    from bert_tf.training.scoring import Scoring
    from bert_tf.training.tracking import tracked
    from bert_tf.training.trainer import Trainer, prepare_directory

    settings = pretraining.settings
    trainer, scoring = Trainer(task, run, pretraining.history(run)), Scoring(scored)
    with tracked(trainer.history):
        if settings.do_train:
            trainer.fit(batches, pretraining.begin, held_out=scoring if settings.eval_file else None)
            pretraining.save_generator()
        else:
            trainer.restore()
            by_chief(prepare_directory, settings.output_dir)
        if settings.do_eval:
            _score(settings, trainer, scoring)
    return trainer.global_step


def _score(settings, trainer, scoring):
    from bert_tf.evaluation.results import write_results
    from bert_tf.training.distribution import by_chief
    from bert_tf.training.run_record import scored_files

    scores, paths = trainer.scores(scoring), settings.eval_file or settings.input_file
    files = scored_files(settings.output_dir, paths, trainer.global_step)
    by_chief(write_results, settings.output_dir, scores, trainer.global_step, "", files.suffix)
    by_chief(files.note)
    trainer.history.concluded(trainer.global_step, {} if files.is_another else scores)


def _print_whether_it_fits(pretraining, task):
    from bert_tf.cli.pretraining_run import largest_step
    from bert_tf.cli.program import in_flags
    from bert_tf.training.memory import available_memory, check_weights, describe_memory

    check_weights(task.config, available_memory())
    step = largest_step(pretraining, task.config, task.build_model().count_params())
    print(in_flags(describe_memory(step, available_memory()), (flag.name for flag in FLAGS)))
