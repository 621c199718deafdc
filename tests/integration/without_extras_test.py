"""What works where no extra of bert-tf is installed: training, evaluation and export; other commands say what to do."""

import subprocess
import sys

import pytest

from bert_tf.utils.extras import PACKAGES
from tests import tiny
from tests.conftest import ROOT

BLOCK = f"""
import sys
blocked = {sorted(module.partition(".")[0] for module in PACKAGES)!r}
assert not set(blocked) & set(sys.modules)
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""
COMMAND = """
from bert_tf.cli.main import main
main(sys.argv[1:])
"""
TRAINING = """
import bert_tf
start, train, out = sys.argv[1:]
run = bert_tf.finetune("classification", train=train, eval=train, init_checkpoint=start, output_dir=out,
                       max_seq_length=16, num_train_epochs=1, train_batch_size=4)
print(sorted(run.metrics))
run.export(out + "/export")
"""


def run_without(code, *words):
    """Runs code in a process in which no package of an extra can be imported, by TensorFlow and Keras neither."""
    return subprocess.run([sys.executable, "-c", BLOCK + code, *words], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_a_model_is_trained_evaluated_and_exported(tmp_path):
    start, train = tiny.checkpoint(tmp_path / "start"), tmp_path / "train.tsv"
    tiny.write_tsv(train, tiny.texts(8, 0, ["bad", "good"]))
    done = run_without(TRAINING, start, train, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "'eval_accuracy'" in done.stdout
    assert list(tmp_path.glob("out/export/*/saved_model.pb"))
    assert done.stderr.count("Reports are written without plots: a plot requires matplotlib.") == 1
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" not in report and "This plot is missing because matplotlib is not installed." in report
    assert "<h2" in report and "accuracy" in report


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("serve --model_base_path=none", "`bert-tf serve` requires aiohttp. Install it: pip install 'bert-tf[serve]'"),
        ("verify none", "`bert-tf verify` requires prometheus-client. Install it: pip install 'bert-tf[serve]'"),
        ("load_test --server=localhost:1 --model_name=a --rest --input_file=FILE",
         "--rest requires aiohttp. Install it: pip install 'bert-tf[serve]'"),
        ("tune run_classifier --search=seed=1,2 --tuning_metric=f1 --output_dir=FILE.out --trials=2 --sampler=tpe",
         "--sampler=tpe requires optuna. Install it: pip install 'bert-tf[tune]'"),
    ],
)  # fmt: skip
def test_a_command_names_the_extra_that_it_lacks(tmp_path, words, message):
    (tmp_path / "texts").write_text("a\n", encoding="utf-8")
    done = run_without(COMMAND, *words.replace("FILE", str(tmp_path / "texts")).split())
    assert done.returncode == 1 and f"Error: {message}" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_no_extra():
    done = run_without(COMMAND, "--help")
    assert done.returncode == 0 and "bert-tf" in done.stdout, done.stderr
