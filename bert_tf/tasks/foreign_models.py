"""Maximum lengths and classes in the files of models trained with other software."""

from absl import logging

from bert_tf.models.config import EncoderConfig
from bert_tf.tasks.options import RunOptions


def limit_length(stated: int | None, config: EncoderConfig) -> int:
    """Returns the maximum sequence length of a model: the length in its files, but at most its number of positions;
    that number if the files contain no length."""
    return min(stated or config.max_length, config.max_length)


def log_shorter_length(options: RunOptions, stated: int | None, config: EncoderConfig):
    """Logs that the default of `max_seq_length` is shorter than the maximum length in the initial model's files."""
    is_default = options.do_train and options.where_given("max_seq_length") is None
    longest = limit_length(stated, config)
    if is_default and stated is not None and options.max_seq_length < longest:
        logging.info(
            "Training uses at most %d tokens per example, the default of `max_seq_length`, but the maximum length of "
            "%s is %d. To use it in full, set `max_seq_length=%d`.",
            *(options.max_seq_length, options.init_checkpoint, longest, longest),
        )


def names_class(config: EncoderConfig, ending: str) -> bool:
    """Returns whether a Transformers configuration names a class with this suffix, such as "ForTokenClassification"."""
    named = config.extra.get("architectures")
    names = [*(named if isinstance(named, list) else []), config.extra.get("head_class")]
    return any(isinstance(name, str) and name.endswith(ending) for name in names)
