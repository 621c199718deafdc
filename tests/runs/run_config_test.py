"""What the settings say of a run's optimizer, and what a run that is continued must have alike."""


import pytest

from bert_tf.data.fixed_rows import SHARES
from bert_tf.runs.devices import compiles
from bert_tf.runs.fine_tuning_plan import batch_settings, plan_training
from bert_tf.runs.run_config import make_run_config
from bert_tf.runs.settings import fine_tuning_settings
from bert_tf.tasks.options import RunOptions
from bert_tf.training import devices
from bert_tf.training.batching import BatchSettings
from bert_tf.training.lamb import Lamb
from bert_tf.training.optimizers import OPTIMIZERS, make_optimizer
from bert_tf.training.run_config import RunConfig
from bert_tf.training.settings import AdamConfig
from tests import tiny

DEFAULTS = fine_tuning_settings(RunOptions)(output_dir="out")
# The identity of a run that gives nothing of it.
PLAIN = {
    "train_batch_size": 32, "num_train_steps": 10, "num_warmup_steps": 2, "learning_rate": 5e-5, "optimizer": "adamw",
    "schedule": "linear", "reinit_layers": 0, "average_weights": 0.0, "seed": 0, "gradient_accumulation_steps": 1,
    "clip_norm": 1.0, "fixed_shapes": False, "guard": None, "rollback": None, "weight_decay_rate": 0.01,
    "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-6, "bias_correction": False, "layer_rates": None,
    "precision": "float32", "init_checkpoint": None, "bucket_by_length": True,
}  # fmt: skip
NUMBERS = {"weight_decay_rate": 0.0, "adam_beta1": 0.8, "adam_beta2": 0.98, "adam_epsilon": 1e-8}


def _settings(**given):
    return DEFAULTS.give(given)


def _config(optimizer="adamw", **given):
    return make_run_config(_settings(**given), 10, 2, False, {}, optimizer)


def test_defaults_are_google_s():
    config = _config()
    assert config.adam == AdamConfig() and config.step.clip_norm == 1.0 and config.schedule == "linear"
    assert config.identity() == PLAIN


def test_what_is_given_is_taken_and_belongs_to_the_run():
    given = {**NUMBERS, "bias_correction": True, "clip_norm": 0.0, "schedule": "trapezoid"}
    config = _config(**given)
    assert config.adam == AdamConfig(0.0, 0.8, 0.98, 1e-8, True)
    assert config.step.clip_norm == 0 and config.schedule == "trapezoid"
    assert config.identity() == PLAIN | given


def test_numbers_reach_the_optimizer():
    config = AdamConfig(**NUMBERS, bias_correction=True)
    for name in OPTIMIZERS:
        optimizer = make_optimizer(name, 1e-3, config, ((".*", 0.5, 0),))
        assert isinstance(optimizer, OPTIMIZERS[name]) and optimizer.layer_rules == ((".*", 0.5, 0),)
        taken = (optimizer.weight_decay_rate, optimizer.beta_1, optimizer.beta_2, optimizer.epsilon)
        assert taken == (0.0, 0.8, 0.98, 1e-8) and optimizer.bias_correction
    assert not make_optimizer("adamw", 1e-3, AdamConfig()).bias_correction
    assert isinstance(make_optimizer("lamb", 1e-3, AdamConfig()), Lamb)


def test_lamb_always_corrects():
    for given in ({}, {"bias_correction": True}):
        config = _config(optimizer="lamb", **given)
        assert config.optimizer == "lamb" and config.identity() == PLAIN | {"optimizer": "lamb"}
    with pytest.raises(ValueError, match="`bias_correction=false` cannot be combined with `optimizer=lamb`"):
        _config(optimizer="lamb", bias_correction=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adam_beta1": 1.0}, r"`adam_beta1` must be at least 0 and below 1; got 1\.0"),
        ({"adam_beta2": -0.1}, r"`adam_beta2` must be at least 0 and below 1; got -0\.1"),
        ({"adam_epsilon": 0.0}, r"`adam_epsilon` must be above 0; got 0\.0"),
        ({"weight_decay_rate": -1.0}, r"`weight_decay_rate` must not be negative; got -1\.0"),
    ],
)
def test_numbers_out_of_range(given, message):
    with pytest.raises(ValueError, match=message):
        _config(**given)


def test_settings_and_configurations_have_the_same_defaults():
    assert DEFAULTS.clip_norm == RunConfig("out", 1, 1).step.clip_norm
    assert DEFAULTS.bucket_batches is BatchSettings(16).pool_batches is None


def test_batches_by_length():
    assert batch_settings(_settings(), False) == BatchSettings(128)
    assert batch_settings(_settings(bucket_batches=4), True) == BatchSettings(128, True, True, 4)
    assert batch_settings(_settings(pack_examples=True), True) == BatchSettings(128, True, True, packs=True)
    assert batch_settings(_settings(bucket_by_length=False), False) == BatchSettings(128, False)


def test_how_batches_are_made_belongs_to_the_run():
    def config(use_xla=False, **given):
        settings = _settings(**{"do_train": True, "train_batch_size": 8, **given})
        return plan_training(settings, 1, tiny.tokenized(64), {}, use_xla)

    batches = {"bucket_by_length", "bucket_batches", "pack_examples"}
    for given, wanted in (
        ({}, {"bucket_by_length": True, "bucket_batches": 4}),
        ({"bucket_batches": 50}, {"bucket_by_length": True, "bucket_batches": 50}),
        ({"bucket_batches": 1, "pack_examples": True},
         {"bucket_by_length": True, "bucket_batches": 1, "pack_examples": True}),
        ({"bucket_by_length": False}, {"bucket_by_length": False}),
    ):  # fmt: skip
        made = config(**given)
        assert {name: value for name, value in made.identity().items() if name in batches} == wanted
        assert made.step.pack_examples == given.get("pack_examples", False)
        assert made.step.packed_shares == SHARES
    compiled = config(use_xla=True, pack_examples=True)
    assert compiled.step.use_xla and compiled.step.pack_examples
    assert len(compiled.step.packed_shares) <= 4 and compiled.step.packed_shares not in (SHARES, (1.0,))
    with pytest.raises(ValueError, match="`train_batch_size` must be a positive multiple of 3"):
        config(use_xla=True, pack_examples=True, gradient_accumulation_steps=3)


def test_on_a_gpu_only_long_runs_are_compiled(monkeypatch, caplog):
    caplog.set_level("INFO")
    for examples, gpus, given, wanted in (
        (1e9, [], {}, False),
        (1e9, ["GPU:0"], {}, True),
        (0, ["GPU:0"], {}, False),
        (9000, ["GPU:0"], {}, False),
        (9000, ["GPU:0"], {"use_xla": "true"}, True),
        (1e9, ["GPU:0"], {"use_xla": "false"}, False),
        (1e9, ["GPU:0"], {"pack_examples": True}, True),
        (1e9, ["GPU:0"], {"use_tpu": True, "use_xla": "true"}, False),
    ):
        monkeypatch.setattr(devices.tf.config, "list_logical_devices", lambda kind, gpus=gpus: gpus)
        settings = _settings(compilation_cache_dir="none", **given)
        assert compiles(settings, examples) is wanted, (examples, gpus, given)
    said = [record.message for record in caplog.records]
    assert said == [
        "`use_xla=auto`: XLA is on because 1,000,000,000 examples are enough to make up for the compilation time.",
        "`use_xla=auto`: XLA is off because 9,000 examples are too few to make up for the compilation time.",
        "`use_xla=auto`: XLA is on because 1,000,000,000 examples are enough to make up for the compilation time.",
    ]
