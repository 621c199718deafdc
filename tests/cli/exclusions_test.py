"""Flags that cannot be combined: each pair is refused before anything is read."""


import pytest

from bert_tf.cli.commands import PROGRAMS, load_command
from bert_tf.utils.settings import Settings, check_combinations


def _check(command, given):
    flags = load_command(command).FLAGS
    check_combinations(flags, Settings({flag.name: flag.default for flag in flags} | given, given))


@pytest.mark.parametrize(
    ("command", "given", "pair"),
    [
        ("ask", {"pair": True, "choices": True}, "`pair` and `choices`"),
        ("create_pretraining_data", {"do_whole_word_mask": True, "masking": "span"},
         "`do_whole_word_mask` and `masking=span`"),
        ("embed", {"update": True, "pooling": ["max"]}, "`update` and `pooling`"),
        ("embed", {"update": True, "prompt": "a "}, "`update` and `prompt`"),
        ("embed", {"update": True, "vector_dtype": "int8"}, "`update` and `vector_dtype`"),
        ("export", {"hub": True, "export_dtype": "bfloat16"}, "`hub` and `export_dtype`"),
        ("export", {"hub": True, "export_for": "cpu"}, "`hub` and `export_for`"),
        ("export", {"hub": True, "export_explanations": ["attention"]}, "`hub` and `export_explanations`"),
        ("fill_mask", {"export_dir": "a", "input_file": "b"}, "`export_dir` and `input_file`"),
        ("find_label_errors", {"feature_layers": "last", "fine_tune": True}, "`feature_layers` and `fine_tune`"),
        ("load_test", {"concurrency": 2, "rate": ["1"]}, "`concurrency` and `rate`"),
        ("load_test", {"rest": True, "tls": True}, "`rest` and `tls`"),
        ("load_test", {"rest": True, "tls_key_file": "a"}, "`rest` and `tls_key_file`"),
        ("pretrain_small", {"teacher": "a", "vocab_file": "b"}, "`teacher` and `vocab_file`"),
        ("pretrain_small", {"vocab_size": 100, "vocab_file": "b"}, "`vocab_size` and `vocab_file`"),
        ("pretrain_small", {"vocab_size": 100, "teacher": "b"}, "`vocab_size` and `teacher`"),
        ("probe", {"heads": True, "eval_file": "a"}, "`heads` and `eval_file`"),
        ("probe", {"heads": True, "tag_column": 1}, "`heads` and `tag_column`"),
        ("search", {"export_file": "a.parquet", "top_k": 3}, "`export_file` and `top_k`"),
        ("search", {"export_file": "a.parquet", "approximate": True}, "`export_file` and `approximate`"),
        ("search", {"qrels_file": "a", "reader": "b"}, "`qrels_file` and `reader`"),
        ("verify", {"inspect": True, "timeout": 60.0}, "`inspect` and `timeout`"),
        ("verify", {"inspect": True, "tls_root_file": "a"}, "`inspect` and `tls_root_file`"),
    ],
)  # fmt: skip
def test_two_flags_that_exclude_each_other_are_refused(command, given, pair):
    with pytest.raises(ValueError) as error:
        _check(command, given)
    assert str(error.value) == f"{pair} cannot be combined. Remove one."
    for name, value in given.items():
        _check(command, {name: value})


@pytest.mark.parametrize("command", sorted({*PROGRAMS} - {"find_label_errors"}))  # it takes some flags of another
def test_what_a_flag_excludes_is_a_flag_too(command):
    flags = {flag.name: flag for flag in load_command(command).FLAGS}
    for flag in flags.values():
        for name, _, value in (excluded.partition("=") for excluded in flag.excludes):
            assert name in flags and name != flag.name
            values = (*flags[name].choices, *flags[name].words)
            assert not value or not values or value in values
