"""--learning_rate=auto in a program: killed and continued it comes, to the bit, to the run that was given the rate."""

import json

import pytest

from tests import scripts, tiny


@pytest.mark.slow
def test_killed_and_continued_it_is_the_run_with_the_rate_given(tmp_path):
    tiny.checkpoint(tmp_path / "init")
    tiny.write_tsv(tmp_path / "train.tsv", tiny.texts(256))
    common = [
        f"--train_file={tmp_path}/train.tsv", f"--init_checkpoint={tmp_path}/init", "--do_train", "--max_seq_length=32",
        "--train_batch_size=8", "--num_train_epochs=4", "--save_checkpoints_steps=20", "--deterministic", "--seed=1",
    ]  # fmt: skip
    tested, given = tmp_path / "tested", tmp_path / "given"
    auto = [*common, f"--output_dir={tested}", "--learning_rate=auto"]
    killed = scripts.run_and_kill(auto, 60)
    assert "Range test of the learning rate: " in killed
    log = scripts.run(auto)
    scripts.check_continues(log, killed, 20)
    assert "as at the start of this run" in log and "Range test" not in log
    record = json.loads((tested / "run.json").read_text())
    rate = record["identity"]["learning_rate"]
    assert record["settings"]["learning_rate"] == "auto" and f"--learning_rate=auto: {rate:.1e}, as" in log
    assert "Learning-rate range test" in (tested / "report.html").read_text()
    scripts.run([*common, f"--output_dir={given}", f"--learning_rate={rate}"])
    scripts.assert_same_tensors(tested / "model.ckpt-128", given / "model.ckpt-128")
