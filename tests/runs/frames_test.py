"""Examples in real pandas and Polars frames and Hugging Face datasets are written as the rows of their file."""

import json
import os
import subprocess
import sys

import pytest

from tests import other_envs
from tests.conftest import ROOT
from tests.runs import task_rows

pytestmark = pytest.mark.slow
LIBRARIES = ("pandas", "polars", "datasets")
# Prints {task: {library: the lines that are written}}. The libraries are looked for after our own packages.
_CHILD = """
import json, pathlib, sys
sys.path.append(sys.argv[2])
import datasets, pandas, polars
from bert_tf.runs.finetune import find_kind
from bert_tf.runs.in_memory import as_files

def written(task, data):
    with as_files(find_kind(task)[0], train=data) as files:
        return pathlib.Path(files.paths["train"]).read_text(encoding="utf-8").splitlines()

folder = pathlib.Path(sys.argv[1])
read = {
    "rows": lambda path: [json.loads(line) for line in open(path, encoding="utf-8")],
    "pandas": lambda path: pandas.read_json(path, lines=True, dtype=False),
    "polars": polars.read_ndjson,
    "datasets": lambda path: datasets.Dataset.from_json(path, cache_dir=str(folder / "cache")),
}
tasks = sorted(folder.glob("*.jsonl"))
found = {path.stem: {name: written(path.stem, load(str(path))) for name, load in read.items()} for path in tasks}

frame = pandas.DataFrame({"text": ["a", "b", "c"], "label": pandas.array(["x", None, "y"], "string")})
found["typed"] = {
    "category": written("classification", frame.astype({"label": "category"})),
    "string": written("classification", frame),
    "numbers": written("regression", frame.assign(label=pandas.array([1, None, 3], "Int64"))),
    "polars": written("classification", polars.DataFrame(frame.to_dict("list")).cast({"label": polars.Categorical})),
}
names = datasets.ClassLabel(names=["O", "B-X"])
features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "tags": datasets.List(names)})
tagged = datasets.Dataset.from_dict({"tokens": [["a", "b"], ["c"]], "tags": [[0, 1], [0]]}, features=features)
found["classes"] = {
    "tagging": written("tagging", tagged),
    "classification": written("classification", datasets.Dataset.from_dict(
        {"text": ["a", "b"], "label": [1, -1]},
        features=datasets.Features({"text": datasets.Value("string"), "label": names}),
    )),
}
found["versions"] = {module.__name__: module.__version__ for module in (pandas, polars, datasets)}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """{task: {library: written lines}}, from a process that has the libraries."""
    folder = tmp_path_factory.mktemp("frames")
    for task, rows in task_rows.ROWS.items():
        lines = [json.dumps(row) for row in rows(6)]
        (folder / f"{task}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), other_envs.frames_packages()],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found["versions"])
    return found


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("task", task_rows.ROWS)
def test_a_frame_is_written_as_the_rows_of_its_file(task, library, written):
    assert written[task][library] == written[task]["rows"] != []


def test_types_of_columns(written):
    texts = [{"text": "a", "label": "x"}, {"text": "b", "label": None}, {"text": "c", "label": "y"}]
    for name in ("category", "string", "polars"):
        assert [json.loads(line) for line in written["typed"][name]] == texts
    assert [json.loads(line)["label"] for line in written["typed"]["numbers"]] == [1, None, 3]


def test_numbers_of_classes_are_their_names(written):
    assert [json.loads(line)["tags"] for line in written["classes"]["tagging"]] == [["O", "B-X"], ["O"]]
    assert [json.loads(line)["label"] for line in written["classes"]["classification"]] == ["B-X", None]
