"""How every program runs: what is said of flags without effect, and of errors that the user can mend."""

import errno
import logging as standard_logging
import os
import sys

from absl import app, flags, logging

from bert_tf.flags.devices import strategy_name

FLAGS = flags.FLAGS
_TPU_ADDRESS = ("tpu_name", "tpu_zone", "gcp_project", "master")  # where the TPU of --distribution_strategy=tpu is
OF_TRAINING = ("keep_best", "overwrite_output_dir", "freeze_layers", "layerwise_lr_decay", "unfreeze_epochs",
               "reinit_layers", "class_weights", "label_smoothing", "early_stopping")  # fmt: skip
_NO_EFFECT = ("num_tpu_cores", "iterations_per_loop")


def warn_of_ignored():
    """Says once which flags of the command line have no effect."""
    names = _NO_EFFECT if strategy_name() == "tpu" else _NO_EFFECT + _TPU_ADDRESS
    names += () if strategy_name() == "multi_worker" else ("worker_hosts", "task_index")
    given = [name for name in names if name in FLAGS and FLAGS[name].present]
    if given:
        logging.warning("These flags have no effect here: %s.", ", ".join(f"--{name}" for name in given))


def check_actions():
    """Raises ValueError where nothing was asked for, or something that needs training came without it."""
    actions = [name for name in ("do_train", "do_eval", "do_predict", "do_export", "dry_run") if name in FLAGS]
    if len(actions) > 1 and not any(FLAGS[name].value for name in actions):  # a lone one is an option
        raise ValueError(f"There must be something to do. Received none of --{', --'.join(actions)}.")
    if "output_dir" in FLAGS and not FLAGS.output_dir:
        raise ValueError("--output_dir must name a directory. Received an empty name.")
    for name in OF_TRAINING:
        if name in FLAGS and FLAGS[name].value != FLAGS[name].default and not FLAGS.do_train:
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

    for flag in defined():
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
    if not tf or strategy_name() != "multi_worker":
        return False
    kinds = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "FailedPreconditionError")
    return isinstance(error, tuple(getattr(tf.errors, kind) for kind in kinds))


def defined() -> list:
    """Returns the flags of ours that this program has, by the modules of this room that define them."""
    room = __name__.rpartition(".")[0]
    modules = [name for name in FLAGS.flags_by_module_dict() if name.startswith(f"{room}.")]
    return [flag for name in modules for flag in FLAGS.get_key_flags_for_module(name)]
