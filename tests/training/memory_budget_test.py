"""What --dry_run prints, the warning when training begins, and how much memory there is."""

import dataclasses
import logging
import resource

import pytest

from bert_tf.models.config import EncoderConfig
from bert_tf.training.memory import StepShape, estimate
from bert_tf.training.memory_budget import available_memory, check_weights, describe_memory, warn_if_too_large
from bert_tf.utils.memory import kilobytes

STEP = StepShape(EncoderConfig(vocab_size=30522), 110_106_428, batch_size=32, max_seq_length=128, max_predictions=20)
GB = 2**30


def test_the_lines_of_a_dry_run():
    lines = describe_memory(STEP, 5 * GB).splitlines()
    assert [line[:26].rstrip() for line in lines] == [
        *("fits in memory", "parameters", "peak memory, estimated", "  weights", "  optimizer", "  gradients"),
        "  activations",
        *("  TensorFlow itself", "memory available", "tokens per step", "micro-batch that fits"),
    ]
    names = ("fits", "count", "peak", "weights", "optimizer")
    values = dict(zip(names, (line[26:] for line in lines), strict=False))
    assert values.pop("fits") == "no; see the last line"
    assert describe_memory(STEP, 50 * GB).startswith("fits in memory            yes\n")
    peak = estimate(STEP).peak / GB
    assert values == {"count": "110,106,428", "peak": f"{peak:.1f} GB", "weights": "420 MB", "optimizer": "840 MB"}
    assert lines[8:] == [
        "memory available          5.0 GB",
        "tokens per step           4,096: 32 rows of 128",
        "micro-batch that fits     8 rows: `gradient_accumulation_steps=4`",
    ]
    assert lines[6].endswith("of 32 rows at a time")


def test_a_dry_run_says_if_nothing_fits():
    last = describe_memory(STEP, GB).splitlines()[-1]
    assert last.startswith("micro-batch that fits     none, not even one row; `gradient_checkpointing`, ")


def test_weights_that_no_memory_holds_are_refused():
    check_weights(STEP.config, GB)
    deep = dataclasses.replace(STEP.config, num_hidden_layers=9999)
    with pytest.raises(ValueError, match=r"does not fit in memory: 1.0 GB are .* GB: .*num_hidden_layers 9999"):
        check_weights(deep, GB)


def test_a_training_that_will_hardly_fit_is_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        warn_if_too_large(STEP, 64 * GB)
        assert not caplog.records
        warn_if_too_large(STEP, 5 * GB)
        warn_if_too_large(dataclasses.replace(STEP, batch_size=1), GB)
    set_it, nothing_fits = (record.getMessage() for record in caplog.records)
    assert set_it.endswith("5.0 GB are available: Linux may kill this process. Set `gradient_accumulation_steps=4`.")
    assert nothing_fits.endswith("a smaller `max_seq_length` uses less memory.")


@pytest.fixture
def address_limit():
    before = resource.getrlimit(resource.RLIMIT_AS)
    yield lambda size: resource.setrlimit(resource.RLIMIT_AS, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_memory_is_what_the_system_and_the_limits_of_the_process_leave(address_limit):
    free = available_memory()
    assert GB / 4 < free < 2**45
    used = kilobytes("/proc/self/status", "VmSize")
    address_limit(used + GB // 2)  # a thread that begins now takes an eighth for its allocations, or ends the process
    own = kilobytes("/proc/self/status", "VmRSS")
    assert abs(available_memory() - (own + GB // 2)) < GB // 4
