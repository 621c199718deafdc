"""`bert_tf.pretrain`: the same as the command."""

import pytest

import bert_tf
from bert_tf.cli import main

SETTINGS = {"max_seq_length": 32, "max_predictions_per_seq": 5, "num_train_steps": 4, "num_warmup_steps": 1,
            "train_batch_size": 4, "max_eval_steps": 2, "learning_rate": 1e-3}  # fmt: skip


@pytest.mark.slow
def test_it_is_the_command_to_the_bit(material, tmp_path):
    files = {"input_file": material / "train.tfrecord", "eval_file": material / "held_out.tfrecord"}
    model = {"bert_config_file": material / "bert_config.json", "vocab_file": material / "vocab.txt"}
    run = bert_tf.pretrain(output_dir=tmp_path / "python", verbose=False, **files, **model, **SETTINGS)
    flags = {**files, **model, **SETTINGS, "output_dir": tmp_path / "command", "do_train": True, "do_eval": True}
    with pytest.raises(SystemExit):
        main.main(["run_pretraining", *(f"--{name}={value}" for name, value in flags.items())])
    for name in ("model.ckpt-4.data-00000-of-00001", "eval_results.txt"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    assert run.num_steps == 4 and run.metrics["masked_lm_loss"] > 0 and run.model.count_params() > 0


def test_what_is_not_asked_for_is_not_given(monkeypatch):
    received = []

    def stop(settings):
        received.append(settings)
        raise ValueError("stopped")

    monkeypatch.setattr("bert_tf.runs.pretrain.run_pretraining", stop)
    with pytest.raises(ValueError, match="stopped"):
        bert_tf.pretrain("records", output_dir="out", verbose=False)
    (settings,) = received
    assert settings.given_values() == {"do_train": True, "input_file": ["records"], "output_dir": "out"}
    assert not settings.do_eval


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(TypeError, match=r"pretrain\(\) has no argument `do_train`: it trains on `input_file`"):
        bert_tf.pretrain("records", output_dir=tmp_path / "out", do_train=True)
    with pytest.raises(TypeError, match=r"no argument `dry_run`. Use the command, which prints"):
        bert_tf.pretrain("records", output_dir=tmp_path / "out", dry_run=True)
    with pytest.raises(TypeError, match=r"no argument `num_train_step`. Did you mean `num_train_steps`\?"):
        bert_tf.pretrain("records", output_dir=tmp_path / "out", num_train_step=3)
    with pytest.raises(ValueError, match="No record files found"):
        bert_tf.pretrain("nowhere/*", output_dir=tmp_path / "out", verbose=False)
