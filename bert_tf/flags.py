"""Every flag of the scripts, defined once. A script's `main` reads them and hands on plain values."""

import dataclasses
import errno
import logging as standard_logging
import os
import sys

from absl import app, flags, logging

FLAGS = flags.FLAGS
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
_TPU_ADDRESS = ("tpu_name", "tpu_zone", "gcp_project", "master")  # where the TPU of --distribution_strategy=tpu is
_NO_EFFECT = ("num_tpu_cores", "iterations_per_loop")


def define_model():
    """Where the model comes from and what shape its input has."""
    flags.DEFINE_string("init_checkpoint", None, "Weights to start from: a Hugging Face, sentence-transformers or "
                        "bert_tf directory, or a TF1 checkpoint's prefix (.../bert_model.ckpt).")  # fmt: skip
    flags.DEFINE_string("bert_config_file", None, "The model's shape; default: the one beside --init_checkpoint.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary; default: the one beside --init_checkpoint.")
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")
    flags.DEFINE_integer("max_seq_length", 128, "Longest input in word pieces, special tokens included; longer texts "
                         "are cut.", lower_bound=3)  # fmt: skip


def define_run(train_batch_size=32, learning_rate=5e-5):
    """Fine-tuning: what is done, where it goes, and how a step is made."""
    define_training(train_batch_size, learning_rate)
    flags.DEFINE_bool("do_predict", False, "Answer for examples without labels.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples at a time in --do_predict.", lower_bound=1)
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training examples.", lower_bound=0)
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps in which the rate rises.", 0, 1)
    flags.DEFINE_bool("bucket_by_length", True, "Batch examples of similar lengths and pad to the longest only.")


def define_training(train_batch_size=32, learning_rate=5e-5):
    """Training of any kind: where it goes, and how a step is made."""
    flags.DEFINE_string("output_dir", None, "Where checkpoints, scores and predictions go.", required=True)
    flags.DEFINE_bool("overwrite_output_dir", False, "With --do_train: remove an earlier run there and begin anew. "
                      "Without it, a run that was interrupted goes on.")  # fmt: skip
    flags.DEFINE_bool("do_train", False, "Train.")
    flags.DEFINE_bool("do_eval", False, "Score on held-out examples.")
    flags.DEFINE_integer("train_batch_size", train_batch_size, "Examples a step, over all devices.", lower_bound=1)
    flags.DEFINE_integer("eval_batch_size", 8, "Examples at a time in --do_eval.", lower_bound=1)
    flags.DEFINE_float("learning_rate", learning_rate, "The peak of Adam's rate.", lower_bound=0)
    flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between two checkpoints.", lower_bound=1)
    flags.DEFINE_integer("keep_checkpoints", 5, "How many of the last checkpoints stay.", lower_bound=1)
    flags.DEFINE_integer("gradient_accumulation_steps", 1, "Cut each batch into so many parts, to save memory; the "
                         "result stays the same.", lower_bound=1)  # fmt: skip
    flags.DEFINE_bool("rematerialize", False, "Compute activations again in the backward pass, to save memory.")
    flags.DEFINE_enum("precision", "float32", PRECISIONS, "What layers compute in; weights stay float32.")
    flags.DEFINE_enum("use_xla", "auto", ("auto", "true", "false"), "Compile with XLA; auto: with a GPU or TPU only.")
    define_devices()
    flags.DEFINE_integer("seed", 0, "Of the new weights, the order of the examples and dropout.", lower_bound=0)
    flags.DEFINE_bool("deterministic", False, "The same command gives the same weights, bit for bit; may be slower.")


def define_pretraining():
    """What is pretrained, on which records, for how long; the defaults are google-research/bert's."""
    flags.DEFINE_list("input_file", None, "Record files of create_pretraining_data, or patterns, to train on.",
                      required=True)  # fmt: skip
    flags.DEFINE_list("eval_file", None, "Record files that are not trained on, to score on at each checkpoint and in "
                      "--do_eval; default: none at checkpoints, --input_file in --do_eval.")  # fmt: skip
    flags.DEFINE_integer("max_predictions_per_seq", 20, "As in create_pretraining_data.", lower_bound=1)
    flags.DEFINE_integer("num_train_steps", 100_000, "Steps in all.", lower_bound=1)
    flags.DEFINE_integer("num_warmup_steps", 10_000, "Steps in which the rate rises.", lower_bound=0)
    flags.DEFINE_integer("max_eval_steps", 100, "Batches of a scoring at most.", lower_bound=1)
    flags.DEFINE_enum("optimizer", "adamw", ("adamw", "lamb"), "BERT's Adam, or LAMB for batches of thousands.")
    flags.DEFINE_enum("schedule", "linear", ("linear", "polynomial", "cosine", "trapezoid"), "How the rate falls.")
    flags.DEFINE_enum("objective", "masked_lm", ("masked_lm", "left_to_right"), "What is foretold: masked pieces, or "
                      "each next piece by those before it.")  # fmt: skip
    flags.DEFINE_bool("skip_bad_steps", True, "Skip a step whose loss is not finite or leaps, count it, and go back to "
                      "a checkpoint where 20 come in a row.")  # fmt: skip


def define_devices():
    """On what a run computes."""
    strategies = ("default", "mirrored", "multi_worker", "tpu")
    flags.DEFINE_enum("distribution_strategy", "default", strategies, "One device; all GPUs of this machine; those of "
                      "several machines, on each of which the same command runs; or a TPU. See "
                      "docs/distributed.md.")  # fmt: skip
    flags.DEFINE_list("worker_hosts", [], "With multi_worker: host:port of every worker, the same list everywhere; the "
                      "first one writes. Default: what the environment variable TF_CONFIG says.")  # fmt: skip
    flags.DEFINE_integer("task_index", None, "With --worker_hosts: which of them this is, from 0.", lower_bound=0)


def define_classifier_data():
    """Which texts: a GLUE task's folder, or files."""
    flags.DEFINE_string("task_name", None, "A GLUE task whose official files lie in --data_dir: sst-2, cola or mrpc.")
    flags.DEFINE_string("data_dir", None, "The folder of --task_name: train.tsv, dev.tsv, test.tsv.")
    files = "Examples as .tsv, .csv, .jsonl or .parquet, the first three also packed (.gz)"
    flags.DEFINE_string("train_file", None, f"{files}, to train on.")
    flags.DEFINE_string("eval_file", None, f"{files}, to score on.")
    flags.DEFINE_string("predict_file", None, f"{files}, to answer for.")
    flags.DEFINE_bool("header", True, "Whether line 1 of a .tsv or .csv file names its columns.")
    flags.DEFINE_list("text_column", ["text"], "Column of the text, by name or by number from 0; two, with a comma "
                      "between them, for pairs.")  # fmt: skip
    flags.DEFINE_string("label_column", "label", "Column of the label, by name or by number from 0.")
    flags.DEFINE_string("keep_best", None, "Score every checkpoint on --eval_file and keep the best by this metric: "
                        "accuracy, f1, matthews, loss ...")  # fmt: skip


def define_export(model=True):
    """Where an export goes; `model`: also from where it comes, for a program that does nothing else."""
    if model:
        flags.DEFINE_string("model", None, "A trained model: what a script left in its --output_dir.", required=True)
    else:
        flags.DEFINE_bool("do_export", False, "Export the trained model for TensorFlow Serving.")
    flags.DEFINE_string(
        "export_dir", None, "The model's directory as a server knows it; the export becomes its next version"
        + ("." if model else "; default: export in --output_dir."), required=model,
    )  # fmt: skip
    flags.DEFINE_enum("export_dtype", "float32", ("float32", "bfloat16"), "Of weights and computation in the export.")


def define_pretraining_data():
    """How records for pretraining are made of text; the first ten are google-research/bert's."""
    flags.DEFINE_list("output_file", None, "Where the records go; .gz at the end: compressed. Several, with commas "
                        "between them: the records are shared out.", required=True)  # fmt: skip
    flags.DEFINE_string("vocab_file", None, "The vocabulary, one piece a line.", required=True)
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what tokenizer_config.json beside the "
                      "vocabulary says, else true.")  # fmt: skip
    flags.DEFINE_integer("max_seq_length", 128, "Pieces of a row, [CLS] and [SEP] included.", lower_bound=5)
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked pieces of a row at most.", lower_bound=1)
    flags.DEFINE_integer("random_seed", 12345, "Of all that is drawn.", lower_bound=0)
    flags.DEFINE_integer("dupe_factor", 10, "Passes over the text, each with other examples and masks.", lower_bound=1)
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of an example's pieces that is masked.", 0, 1)
    flags.DEFINE_float("short_seq_prob", 0.1, "How often an example aims at a random shorter length.", 0, 1)
    flags.DEFINE_bool("do_whole_word_mask", False, "The same as --masking=whole_word.")
    flags.DEFINE_enum("masking", "token", ("token", "whole_word", "span"), "What is masked together: a piece, all "
                      "pieces of a word, or several words in a row.")  # fmt: skip
    flags.DEFINE_enum("sentence_objective", "nsp", ("nsp", "sop", "none"), "The second text: a random one in half "
                      "of the examples (BERT), swapped with the first in half of them (ALBERT), or none "
                      "(RoBERTa).")  # fmt: skip
    flags.DEFINE_bool("packing", False, "Put several short examples into a row.")
    flags.DEFINE_integer("max_sentences_per_seq", 8, "With --packing, examples in a row at most.", lower_bound=1)
    flags.DEFINE_bool("dynamic_masking", False, "Write records without masks; training masks them anew each epoch.")
    flags.DEFINE_bool("drop_duplicate_lines", False, "Keep one of several equal sentences.")
    flags.DEFINE_integer("num_shards", None, "Write so many files instead of one: NAME-00000-of-00008 and so on.",
                         lower_bound=1)  # fmt: skip
    flags.DEFINE_integer("num_workers", None, "Processes, on which the output does not depend; default: one for each "
                         "core.", lower_bound=1)  # fmt: skip
    flags.DEFINE_string("work_dir", None, "A folder for intermediate files: as much as the text, and twice the "
                        "uncompressed records; default: that of the output.")  # fmt: skip
    flags.DEFINE_string("runner", None, "Run as an Apache Beam pipeline on this runner, such as DirectRunner, "
                        "FlinkRunner, SparkRunner or DataflowRunner.")  # fmt: skip
    flags.DEFINE_string("beam_options", "", "Further options of the pipeline, as Beam's own command line has them.")


def define_google_tpu():
    """google-research/bert's flags for Cloud TPUs."""
    flags.DEFINE_bool("use_tpu", False, "The same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "The Cloud TPU, by name or as grpc://host:port; default: those of this "
                        "machine.")  # fmt: skip
    flags.DEFINE_string("tpu_zone", None, "Its zone; default: this machine's.")
    flags.DEFINE_string("gcp_project", None, "Its project; default: this machine's.")
    flags.DEFINE_string("master", None, "Its address, instead of --tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8, "No effect here.")
    flags.DEFINE_integer("iterations_per_loop", 1000, "No effect here.")


def warn_of_ignored():
    """Says once which flags of the command line have no effect."""
    names = _NO_EFFECT if _strategy() == "tpu" else _NO_EFFECT + _TPU_ADDRESS
    names += () if _strategy() == "multi_worker" else ("worker_hosts", "task_index")
    given = [name for name in names if name in FLAGS and FLAGS[name].present]
    if given:
        logging.warning("These flags have no effect here: %s.", ", ".join(f"--{name}" for name in given))


def _strategy():
    """Returns the name of the strategy: --use_tpu stands for one."""
    asked = "use_tpu" in FLAGS and FLAGS.use_tpu
    named = "default" if "distribution_strategy" not in FLAGS else FLAGS.distribution_strategy
    return "tpu" if asked and named == "default" else named


def check_actions():
    """Raises ValueError where nothing was asked for, or something that needs training came without it."""
    actions = [name for name in ("do_train", "do_eval", "do_predict", "do_export") if name in FLAGS]
    if actions and not any(FLAGS[name].value for name in actions):
        raise ValueError(f"There must be something to do. Received none of --{', --'.join(actions)}.")
    for name in ("keep_best", "overwrite_output_dir"):
        if name in FLAGS and FLAGS[name].value and not FLAGS.do_train:
            raise ValueError(f"--{name} must come with --do_train. Received it without.")


def run(main, takes_texts=False):
    """Runs a script: what the user can mend ends in one message and status 1, everything else in a traceback.

    Args:
        main: called without arguments; with `takes_texts`, with the list of what is no flag on the command line.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow greets with a screenful otherwise

    def guarded(argv):
        logging.set_verbosity(logging.INFO)
        logging.use_absl_handler()
        logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        warn_of_ignored()
        try:
            if argv[1:] and not takes_texts:
                raise ValueError(f"Everything must be given as --flag=value. Received: {' '.join(argv[1:])}")
            check_actions()
            main(*([argv[1:]] if takes_texts else []))
        except Exception as error:
            if _is_lost_worker(error):
                logging.error("Error: another worker of this run has ended or cannot be reached; its own log says why.")
                logging.error("The same command, started again on all workers, goes on from the last checkpoint.")
                logging.debug("The place:", exc_info=True)
                sys.exit(1)
            if not _can_be_mended(error):
                raise
            logging.error("Error: %s", error)
            if isinstance(error, OSError):
                logging.error("%s; what was there before is unchanged.", _remedy(error))
            logging.debug("The place:", exc_info=True)
            sys.exit(1)
        except KeyboardInterrupt:
            resumes = "do_train" in FLAGS and FLAGS.do_train
            logging.error("Interrupted. The same command %s.", "goes on from the last checkpoint, if one was written"
                          if resumes else "begins anew, what is half-made was removed")  # fmt: skip
            sys.exit(130)

    for flag in FLAGS.get_key_flags_for_module(sys.modules[__name__]):
        FLAGS.register_key_flag_for_module(sys.argv[0], flag)  # so that --help shows them
    app.run(guarded)


def _remedy(error: OSError) -> str:
    full = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return "Free space, or name another place" if error.errno in full else "Make it accessible, or name another place"


def _can_be_mended(error) -> bool:
    """Whether it is the user's to mend: wrong input, no space, no memory."""
    tf = sys.modules.get("tensorflow")  # not imported here: some programs do without
    return isinstance(error, (ValueError, OSError)) or tf and isinstance(error, tf.errors.ResourceExhaustedError)


def _is_lost_worker(error) -> bool:
    """Whether it is what TensorFlow raises in the workers that live on when one has died, or its machine is cut off."""
    tf = sys.modules.get("tensorflow")
    if not tf or _strategy() != "multi_worker":
        return False
    kinds = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "FailedPreconditionError")
    return isinstance(error, tuple(getattr(tf.errors, kind) for kind in kinds))


def apply_run_flags():
    """Sets what holds for the whole process: seed, determinism, precision. Returns (strategy, whether to use XLA).

    Raises:
        ValueError: the devices of the strategy cannot be had.
    """
    import keras
    import tensorflow as tf

    from bert_tf.training import distribution

    name = _strategy()
    if "use_tpu" in FLAGS and FLAGS.use_tpu and name != "tpu":
        raise ValueError(f"--use_tpu must come with --distribution_strategy=tpu or without it. Received: {name!r}.")
    tpu = (FLAGS.tpu_name or FLAGS.master, FLAGS.tpu_zone, FLAGS.gcp_project) if name == "tpu" else ()
    strategy = distribution.make_strategy(name, FLAGS.worker_hosts, FLAGS.task_index, tpu)
    keras.utils.set_random_seed(FLAGS.seed)
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(FLAGS.precision)
    if name == "tpu":
        return strategy, False  # what runs on a TPU is compiled in any case, and as a whole
    return strategy, distribution.xla_by_default() if FLAGS.use_xla == "auto" else FLAGS.use_xla == "true"


def model_paths() -> list[str | None]:
    """Returns where the model is described: the initial checkpoint, but first a trained one in the output directory.

    Training begins from the initial checkpoint, so then the order is the other way round.
    """
    trained = FLAGS.output_dir if os.path.isdir(FLAGS.output_dir) else None
    return [FLAGS.init_checkpoint, trained] if FLAGS.do_train else [trained, FLAGS.init_checkpoint]


def run_config(num_examples: int, use_xla: bool, settings: dict):
    """Returns the `RunConfig` that a fine-tuning's flags describe, for so many examples (0 when nothing is trained).

    Raises:
        ValueError: there are too few examples for one step.
    """
    steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if FLAGS.do_train and not steps:
        raise ValueError(
            f"Training must have a step at least. Received {num_examples} examples x {FLAGS.num_train_epochs} epochs, "
            f"fewer than one batch of {FLAGS.train_batch_size}; lower --train_batch_size."
        )
    warmup = int(steps * FLAGS.warmup_proportion)
    return _run_config(steps, warmup, use_xla, {"bucket_by_length": FLAGS.bucket_by_length, **settings})


def pretraining_config(use_xla: bool, settings: dict):
    """Returns the `RunConfig` that a pretraining's flags describe."""
    from bert_tf.training.guard import GuardConfig, Rollback

    config = _run_config(FLAGS.num_train_steps, FLAGS.num_warmup_steps, use_xla, settings)
    guarded = {"rollback": Rollback(), "step": dataclasses.replace(config.step, guard=GuardConfig())}
    more = guarded if FLAGS.skip_bad_steps else {}
    return dataclasses.replace(config, optimizer=FLAGS.optimizer, schedule=FLAGS.schedule, **more)


def _run_config(steps, warmup, use_xla, settings):
    from bert_tf.training.loop import RunConfig
    from bert_tf.training.step import StepConfig

    return RunConfig(
        output_dir=FLAGS.output_dir,
        train_batch_size=FLAGS.train_batch_size,
        num_train_steps=steps,
        num_warmup_steps=warmup,
        learning_rate=FLAGS.learning_rate,
        init_checkpoint=FLAGS.init_checkpoint,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        keep_checkpoints=FLAGS.keep_checkpoints,
        anew=FLAGS.overwrite_output_dir,
        step=StepConfig(
            seed=FLAGS.seed,
            accumulation=FLAGS.gradient_accumulation_steps,
            use_xla=use_xla,
            scale_loss=FLAGS.precision == "mixed_float16",
        ),
        settings={
            "precision": FLAGS.precision,
            "init_checkpoint": FLAGS.init_checkpoint and os.path.realpath(FLAGS.init_checkpoint),
            **settings,
        },
    )


def define_corpus(required=True):
    """Which text, and how sentences and documents are found in it."""
    flags.DEFINE_list("input_file", None, "Text: files, globs or folders, with commas between them; .gz and .zst are "
                      "unpacked.", required=required)  # fmt: skip
    flags.DEFINE_enum("input_format", None, ("sentences", "prose", "jsonl"), "A sentence a line and a blank line "
                      "between documents; running text; or JSON objects, one a line. Default: guessed for each file, "
                      "and said.")  # fmt: skip
    flags.DEFINE_string("text_column", "text", "The key of the text in .jsonl.")
    flags.DEFINE_string("document_start", None, "A regular expression: a line of prose that it finds begins a "
                        "document. Default: each file is one.")  # fmt: skip
    flags.DEFINE_string("language", "en", "Of prose, as an ISO 639 code: says where sentences end.")
    flags.DEFINE_bool("drop_junk_lines", False, "Leave out lines that are hardly language: tables, addresses, markup.")


def define_train_vocabulary():
    """How a vocabulary is learned, and what it is compared with."""
    flags.DEFINE_string("output_file", "vocab.txt", "Where the vocabulary goes; a report goes beside it.")
    flags.DEFINE_integer("vocab_size", 30522, "Pieces, special ones included.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", True, "Lowercase the text and strip accents.")
    flags.DEFINE_integer("unused_pieces", 0, "Rows to keep free, [unused0] and on; Google's vocabularies have 99 to "
                         "994.", lower_bound=0)  # fmt: skip
    flags.DEFINE_integer("min_count", 2, "How often a piece must occur at least.", lower_bound=1)
    flags.DEFINE_integer("max_words", 500_000, "Learn from so many distinct words, the most frequent ones; memory and "
                         "time grow with it, some 4 kB and 0.1 ms a word and try.", lower_bound=1)  # fmt: skip
    flags.DEFINE_integer("max_characters", 1000, "So many characters become pieces; rarer ones will be [UNK]. Chinese "
                         "needs some 8000.", lower_bound=1)  # fmt: skip
    flags.DEFINE_list("held_out_file", None, "Text for the report: files, globs or folders. Default: 1 % of "
                      "--input_file, which is not learned from.")  # fmt: skip
    flags.DEFINE_string("compare_vocab_file", None, "Another vocabulary, for the report beside this one.")


def define_extend_vocabulary():
    """Which words a checkpoint's vocabulary gets, and where the new checkpoint goes."""
    flags.DEFINE_string("model", None, "The checkpoint: a Hugging Face, sentence-transformers or bert_tf directory, or "
                        "a TF1 checkpoint's prefix.", required=True)  # fmt: skip
    flags.DEFINE_string("output_dir", None, "Where the new checkpoint goes: a directory that is not there yet, or "
                        "empty.", required=True)  # fmt: skip
    flags.DEFINE_string("words_file", None, "The words to add, one a line. Default: those of --input_file that are "
                        "worth most.")  # fmt: skip
    flags.DEFINE_integer("num_words", 500, "Words to take from --input_file at most.", lower_bound=1)
    flags.DEFINE_integer("min_count", 5, "How often such a word must occur at least.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")


def define_fill_mask():
    """Which model fills in the blanks of which texts, and how the answers look."""
    flags.DEFINE_string("model", None, "A checkpoint with a masked-LM head: a Hugging Face directory, what "
                        "run_pretraining.py left in --output_dir, or a TF1 checkpoint's prefix.",
                        required=True)  # fmt: skip
    flags.DEFINE_string("vocab_file", None, "The vocabulary; default: the one beside the checkpoint.")
    flags.DEFINE_bool("do_lower_case", None, "Lowercase the text; default: what the checkpoint says, else true.")
    flags.DEFINE_integer("max_seq_length", None, "Longest text in word pieces, special tokens included; default: as "
                         "many as the model has positions.", lower_bound=3)  # fmt: skip
    flags.DEFINE_string("input_file", None, "Texts, one a line, also packed (.gz). Default: the arguments, else "
                        "standard input.")  # fmt: skip
    flags.DEFINE_integer("top_k", 5, "Tokens to answer with for each [MASK].", lower_bound=1)
    flags.DEFINE_bool("json", False, "Answer in JSON, one object a line for each [MASK].")
    flags.DEFINE_string("export_dir", None, "Instead of answering: write the model as a SavedModel, the next version "
                        "below this directory.")  # fmt: skip
    flags.DEFINE_enum("export_dtype", "float32", ("float32", "bfloat16"), "Of weights and computation in the export.")
