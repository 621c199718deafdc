"""Letter case and accents of a tokenizer: the requested ones, or those of its files."""

import json
import os
import re

from bert_tf.tokenization.tokenizer_config import CONFIG_FILE, check_tokenizer_config, read_config
from bert_tf.utils.files import brief

# Directory names of Google's releases after unpacking.
_LOWER_NAMES = re.compile(r"(wwm_)?uncased_L-.*|(multilingual|chinese)_L-12_H-768_A-12")
_CASED_NAMES = re.compile(r"(wwm_|multi_)?cased_L-.*")


def check_case(init_checkpoint: str | os.PathLike | None, do_lower_case: bool):
    """Raises ValueError if the letter case contradicts the name of a google-research/bert release.

    Args:
        init_checkpoint: a checkpoint directory or prefix, such as ".../cased_L-12_H-768_A-12/bert_model.ckpt"; None and
            names that are not of a release pass.
        do_lower_case: the requested letter case.

    Raises:
        ValueError: they disagree.
    """
    parts = os.path.normpath(os.fspath(init_checkpoint)).split(os.sep)[-2:] if init_checkpoint else []
    for name in parts:
        lower, cased = _LOWER_NAMES.fullmatch(name), _CASED_NAMES.fullmatch(name)
        if (lower and not do_lower_case) or (cased and do_lower_case):
            raise ValueError(
                f"`do_lower_case` does not match the checkpoint: {name} was trained on "
                f"{'lowercase' if lower else 'cased'} text, but `do_lower_case` is {json.dumps(do_lower_case)}. "
                f"Set `do_lower_case={json.dumps(bool(lower))}`."
            )


def resolve_case_and_accents(
    directory: str, do_lower_case: bool | None, own_class: str | None = None
) -> tuple[bool, bool]:
    """Returns (do_lower_case, strip_accents); `own_class` is as in `check_tokenizer_config`.

    The letter case is the requested one, that of `tokenizer_config.json`, or True. Accents are stripped from lowercased
    text unless `tokenizer_config.json` keeps them.

    Raises:
        ValueError: the file contradicts the request, or has a setting that Google's algorithm does not support.
    """
    path = os.path.join(directory, CONFIG_FILE)
    config = read_config(directory)
    chosen = case_setting(path, config, do_lower_case, True)
    strip = config.get("strip_accents")
    _refuse_foreign_settings(path, config, chosen)
    check_tokenizer_config(path, config, "wordpiece", own_class)
    check_case(directory, chosen)
    return chosen, chosen and strip is not False


def case_setting(path: str, config, do_lower_case: bool | None, default: bool) -> bool:
    """Returns the requested do_lower_case, or that of `config`, which was read from `path`, or `default`.

    Raises:
        ValueError: the two contradict each other.
    """
    stored = config.get("do_lower_case")
    if stored is not None and not isinstance(stored, bool):
        raise ValueError(f"{path}: do_lower_case must be true or false; got {brief(stored)}.")
    if None not in (stored, do_lower_case) and stored != do_lower_case:
        raise ValueError(
            f"`do_lower_case` does not match the checkpoint: {path} has {json.dumps(stored)}; got "
            f"{json.dumps(do_lower_case)}; omit `do_lower_case`."
        )
    return next(value for value in (do_lower_case, stored, default) if value is not None)


def case_settings(do_lower_case: bool, strip_accents: bool) -> dict[str, bool]:
    """Returns the settings from which `resolve_case_and_accents` restores these two values."""
    accents = {} if strip_accents == do_lower_case else {"strip_accents": strip_accents}
    return {"do_lower_case": do_lower_case} | accents


def _refuse_foreign_settings(path, config, do_lower_case):
    """Raises ValueError for settings that would silently give other ids than those the model was trained on."""
    ours = {"tokenize_chinese_chars": True, "do_basic_tokenize": True}
    ours |= {} if do_lower_case else {"strip_accents": False}  # lowercasing alone is used by models of other languages
    for key, value in ours.items():
        if config.get(key) not in (None, value):
            raise ValueError(
                f"{path}: {key} must be {json.dumps(value)} or absent with do_lower_case {json.dumps(do_lower_case)}, "
                f"as in google-research/bert's algorithm; got {json.dumps(config[key]):.200}; "
                "remove the key to use Google's algorithm anyway."
            )
