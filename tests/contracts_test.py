"""Promises that outlive our code: who imports whom, names of variables, flags and features."""

import ast
import collections
import functools
import json
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from bert_tf.cli import commands, main
from bert_tf.models import family_registry
from bert_tf.tasks.built_in import BUILT_IN_TASKS
from bert_tf.utils.names import PROBLEMS
from tests import tiny
from tests.code_imports import walk
from tests.conftest import ROOT

BERT_TF = ROOT / "bert_tf"
# The packages in the order in which data flows: each may import those before it, and itself.
PACKAGES = (
    "utils", "models", "tokenization", "lite", "serving", "checkpoints", "data", "evaluation", "tasks", "pretraining",
    "training", "interpret", "export", "inference", "runs", "sklearn", "mlflow", "experiments", "cli",
)  # fmt: skip


def _modules():
    return sorted(BERT_TF.rglob("*.py"))


def _package(name):
    """Returns the package of a dotted module name: "bert_tf.data.table_reader" -> "data"."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "bert_tf"


def _name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


class Source(NamedTuple):
    """What the tests here look at in a file; the whole trees of all files would be a gigabyte.

    Attributes:
        imports: dotted names of what is imported anywhere, functions included.
        names: of the classes and functions that the module defines.
        texts: (line, text) of the string constants that are no docstrings.
        questions: (line, what it asks) of each comparison that asks which family or task something is.
    """

    imports: frozenset
    names: tuple
    texts: tuple
    questions: tuple


@functools.cache
def _read(path):
    tree, imports, texts, questions, docstrings = ast.parse(path.read_text(encoding="utf-8")), set(), [], [], set()
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imports.add(full if (ROOT / (full.replace(".", "/") + ".py")).exists() else node.module)
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            if isinstance(node.body[0], ast.Expr):
                docstrings.add(id(node.body[0].value))  # walked later than what it belongs to
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            texts.append((node.lineno, node.value))
        elif asked := _asks_which_family_or_task(node):
            questions.append((node.lineno, asked))
    defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = tuple(node.name for node in tree.body if isinstance(node, defined))
    return Source(frozenset(imports), names, tuple(texts), tuple(questions))


def _our_imports(path):
    return {name for name in _read(path).imports if name.split(".")[0] == "bert_tf"}


def test_the_packages_are_these():
    assert {_package(_name(path)) for path in _modules()} == {*PACKAGES, "bert_tf", "__main__"}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package):
    allowed = {"bert_tf", *PACKAGES[: PACKAGES.index(package) + 1]}
    for path in (BERT_TF / package).rglob("*.py"):
        wrong = [name for name in _our_imports(path) if _package(name) not in allowed]
        assert not wrong, f"{_name(path)} imports {wrong}, and {package} may not"


# Products on top of training and export, each with its directories and modules: (prefix, where it may be imported).
PRODUCTS = {
    "bert_tf.serving.server": ("serving",),
    "bert_tf.inference.search": (),
    "bert_tf.interpret.page": ("interpret/page",),
}
CORE = PACKAGES[: PACKAGES.index("inference")]


@pytest.mark.parametrize("product", PRODUCTS)
def test_training_and_export_import_no_server_search_or_page(product):
    own = tuple(f"{BERT_TF.as_posix()}/{folder}/" for folder in PRODUCTS[product])
    paths = [path for package in CORE for path in (BERT_TF / package).rglob("*.py")]
    wrong = [
        f"{_name(path)} imports {name}"
        for path in paths
        if not path.as_posix().startswith(own)
        for name in _our_imports(path)
        if name.startswith(product)
    ]
    assert len(paths) > 300 and not wrong, wrong


def test_the_walk_sees_imports():
    assert "bert_tf.models.encoder" in _our_imports(BERT_TF / "checkpoints" / "loading.py")
    assert "bert_tf.checkpoints.tf1" in _our_imports(BERT_TF / "checkpoints" / "checkpoint_manager.py")


def test_a_class_or_public_function_has_a_name_of_its_own():
    """A search for a name finds one place; `main` is every program's, by design."""
    places = collections.defaultdict(set)
    for path in _modules():
        for name in _read(path).names:
            places[name].add(_name(path))
    twice = {
        name: sorted(found)
        for name, found in places.items()
        if len(found) > 1 and name != "main" and (name.lstrip("_")[:1].isupper() or not name.startswith("_"))
    }
    assert not twice


def test_flags_are_read_in_one_place():
    sources = {_name(path): path.read_text(encoding="utf-8") for path in _modules()}
    readers = {name for name, text in sources.items() if re.search(r"from absl import .*flags|absl\.flags", text)}
    assert readers == {"bert_tf.cli.command_runner"}


def _programs():
    """Returns name -> module of every program."""
    return {name: commands.load_command(name) for name in main.PROGRAMS}


def test_the_library_names_parameters_and_not_flags():
    """A Python caller never typed a flag: `program.in_flags` turns `name` into --name."""
    names = {flag.name for program in _programs().values() for flag in program.FLAGS}
    wrong = [
        f"{_name(path)}:{line} {text}"
        for path in _modules()
        if _package(_name(path)) != "cli" and path.name not in ("options.py", "settings.py")  # help of flags
        for line, text in _read(path).texts
        if names & set(re.findall(r"--(\w+)", text))
    ]
    assert not wrong, "\n".join(wrong)


def test_names_stand_once():
    from bert_tf.checkpoints.writers import FORMATS
    from bert_tf.pretraining.corpus.examples import OBJECTIVES
    from bert_tf.pretraining.objectives.distillation_losses import COMPARISONS, MASKED_LM
    from bert_tf.pretraining.objectives.registry import OBJECTIVES as PRETRAINING
    from bert_tf.training.optimizers import OPTIMIZERS
    from bert_tf.training.schedules import SCHEDULES
    from bert_tf.training.tracking import TRACKERS
    from bert_tf.utils import names

    assert set(FORMATS) == set(names.FORMATS)
    assert tuple(OBJECTIVES) == names.SENTENCE_OBJECTIVES
    assert {*COMPARISONS, MASKED_LM} == set(names.DISTILLATION_LOSSES) and set(PRETRAINING) == set(names.OBJECTIVES)
    assert tuple(OPTIMIZERS) == names.OPTIMIZERS and tuple(SCHEDULES) == names.SCHEDULES
    assert tuple(TRACKERS) == names.TRACKERS


FAMILIES = {*family_registry.FAMILIES, "xlm-roberta", "camembert", "deberta-v2"}


def _asked(node):
    """Yields what a piece of code compares: the names of variables and attributes, and text."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield repr(part.value)


def _asks_which_family_or_task(node):
    if not isinstance(node, ast.Compare | ast.MatchValue):
        return set()
    asked = set(_asked(node))
    text = {name for name in asked if name.startswith(("'", '"'))}
    of_ours = {repr(name) for name in (*FAMILIES, *PROBLEMS)}
    return asked & of_ours or text and asked & {"family", "task_name", "model_type", "problem"}


def test_no_code_asks_which_family_or_task_it_is():
    for path in _modules():
        assert not _read(path).questions, path


@pytest.mark.parametrize(
    "code",
    [
        'x == "roberta"',
        '"bert" in x',
        'x in ("a", "distilbert")',
        'config.model_type == "mine"',
        'task["problem"] == "multi_label"',
        'match x:\n  case "albert": pass',
    ],
)
def test_the_walk_sees_such_questions(code):
    assert any(map(_asks_which_family_or_task, ast.walk(ast.parse(code))))


# Where a family is named: its row, its tokenizer, its names in files, and the files that are published for it.
NAMING = (
    "models/", "tokenization/", "checkpoints/names/", "checkpoints/keras_hub_names.py", "checkpoints/releases.py",
)  # fmt: skip


def test_no_other_file_names_the_families_that_came_last():
    """Not in comments and messages either; the names of older families are those of objectives and papers, too."""
    names = r"modernbert|deberta|mpnet|camembert|nomic|\bgte\b"
    naming = {
        path.relative_to(BERT_TF).as_posix()
        for path in _modules()
        if re.search(names, path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    assert {"models/family_registry.py", "checkpoints/names/family_mappings.py"} <= naming
    assert not [name for name in naming if not name.startswith(NAMING)]


# What is about one task by its purpose: label errors and tables of a classifier, scikit-learn's estimators, GLUE, what
# searches and mines for rerankers and embedders, probes of tagged words, and the heads that attributions explain.
ABOUT_ONE_TASK = {
    "cli.clean_data", "cli.find_label_errors", "cli.mine_negatives", "cli.split", "experiments.glue.child_flags",
    "inference.hard_negatives", "inference.reranker", "interpret.probing.examples", "interpret.targets",
    "sklearn.classifier", "sklearn.estimator", "sklearn.regressor", "sklearn.tagger",
}  # fmt: skip


def test_a_new_task_is_its_folder_and_a_row():
    """Commands, runs, data checks, exports and servers ask the tasks of the table; none of them names one."""
    folders = {path.parent.name for path in (BERT_TF / "tasks").glob("*/task.py")}
    assert {task.name for task in BUILT_IN_TASKS} == folders
    packages = {f"bert_tf.tasks.{folder}" for folder in folders}
    naming = {
        _name(path).removeprefix("bert_tf.")
        for path in _modules()
        if _package(_name(path)) != "tasks" and any(name.startswith(tuple(packages)) for name in _our_imports(path))
    }
    assert naming == ABOUT_ONE_TASK


@pytest.mark.parametrize("task", BUILT_IN_TASKS, ids=lambda task: task.name)
def test_a_row_says_what_is_in_the_folder(task):
    kind = task.load_task()
    assert kind.name == task.name and type(kind.options) is task.load_options()
    assert (ROOT / "docs" / f"{task.guide}.md").exists()


LIGHT = {
    "bert_tf": ("tensorflow", "keras", "numpy"),
    "bert_tf.models.config": ("tensorflow", "keras", "numpy"),
    "bert_tf.models.family_registry": ("tensorflow", "keras", "numpy"),
    "bert_tf.tasks.built_in": ("tensorflow", "keras", "numpy"),
    "bert_tf.utils.text_inputs": ("tensorflow", "keras", "numpy"),
    "bert_tf.checkpoints.names.family_mappings": ("tensorflow", "keras", "numpy"),
    "bert_tf.checkpoints.keras_hub_names": ("tensorflow", "keras", "numpy"),
    "bert_tf.checkpoints.heads": ("tensorflow", "keras", "numpy"),
    "bert_tf.evaluation.squad": ("tensorflow", "keras", "numpy"),
    "bert_tf.serving.client.client": ("tensorflow", "keras", "aiohttp"),
    "bert_tf.serving.client.load_generation": ("tensorflow", "keras", "aiohttp"),
    "bert_tf.serving.client.load_calls": ("tensorflow", "keras", "aiohttp"),
    "bert_tf.serving.client.load_report": ("tensorflow", "keras", "aiohttp"),
    "bert_tf.evaluation.metrics": ("tensorflow", "keras"),
    "bert_tf.evaluation.constant_predictions": ("tensorflow", "keras"),
    "bert_tf.evaluation.retrieval": ("tensorflow", "keras"),
    "bert_tf.evaluation.results": ("tensorflow", "keras"),
    "bert_tf.evaluation.significance": ("tensorflow", "keras"),
    "bert_tf.data.tables": ("tensorflow", "keras"),
    "bert_tf.data.glue": ("tensorflow", "keras"),
    "bert_tf.data.features": ("tensorflow", "keras"),
    "bert_tf.utils.html_report": ("tensorflow", "keras", "matplotlib"),
    "bert_tf.experiments.glue.grid": ("tensorflow", "keras"),
    "bert_tf.experiments.comparison_page": ("tensorflow", "keras", "matplotlib"),
    "bert_tf.experiments.tuning.tuner": ("tensorflow", "keras"),
    "bert_tf.utils.documents": ("tensorflow", "keras"),
    "bert_tf.utils.text_blocks": ("tensorflow", "keras"),
}


def test_light_modules_are_light():
    """One process each would be cleaner and slower: the lightest comes first, and what it must not bring is checked."""
    code = (
        "import importlib, json, sys\n"
        "for name, heavy in json.loads(sys.argv[1]).items():\n"
        "    importlib.import_module(name)\n"
        "    brought = [h for h in heavy if h in sys.modules]\n"
        "    assert not brought, (name, brought)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(LIGHT)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_variable_paths_of_the_classifier_are_the_committed_ones():
    from bert_tf.tasks.classification.task import ClassificationTask

    committed = pathlib.Path(__file__).parent / "tasks" / "classification_variables.json"
    model = ClassificationTask(tiny.config(num_hidden_layers=2), 3).build_model()
    assert {v.path: list(v.shape) for v in model.variables} == json.loads(committed.read_text(encoding="utf-8"))


# google-research/bert, run_classifier.py.
GOOGLE_FLAGS = {
    "data_dir": None, "bert_config_file": None, "task_name": None, "vocab_file": None, "output_dir": None,
    "init_checkpoint": None, "max_seq_length": 128, "do_train": False, "do_eval": False, "do_predict": False,
    "train_batch_size": 32, "eval_batch_size": 8, "predict_batch_size": 8, "learning_rate": 5e-5,
    "num_train_epochs": 3.0, "warmup_proportion": 0.1, "save_checkpoints_steps": 1000, "iterations_per_loop": 1000,
    "use_tpu": False, "tpu_name": None, "tpu_zone": None, "gcp_project": None, "master": None, "num_tpu_cores": 8,
}  # fmt: skip
# BERT's Adam, as google-research/bert's optimization.py has it.
OPTIMIZER_FLAGS = {
    "schedule": "linear", "weight_decay_rate": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-6,
    "clip_norm": 1.0, "bias_correction": False,
}  # fmt: skip
# Of every program that trains, and of those that fine-tune.
TRAINING_FLAGS = {
    "do_lower_case": None,  # Google: True; here unset means what the checkpoint says, else True
    "precision": "float32", "use_xla": "auto", "compilation_cache_dir": "auto", "distribution_strategy": "default",
    "seed": 0, "deterministic": False, "gradient_accumulation_steps": 1, "gradient_checkpointing": False,
    "keep_checkpoints": 5, "overwrite_output_dir": False,
    "eval_file": None, "save_format": [], "worker_hosts": [], "task_index": None, "dry_run": False,
    "keep_optimizer": False, "tracking": None, "teacher": None, "distillation_temperature": 2.0, **OPTIMIZER_FLAGS,
}  # fmt: skip
FINE_TUNING_FLAGS = {
    **TRAINING_FLAGS,
    "bucket_by_length": True, "do_export": False, "export_dir": None, "export_dtype": "float32",
    "int8_tolerance": 0.01, "calibration_file": None, "export_for": "portable", "export_threads": 2,
    "export_explanations": [],
    "freeze_layers": "0", "layerwise_lr_decay": 1.0, "unfreeze_epochs": 0.0, "reinit_layers": 0, "lora_rank": 0,
    "lora_alpha": None, "lora_targets": ["query", "value"], "bucket_batches": None, "pack_examples": False,
    "lstm_units": None, "strict_data": False, "sort_predictions": "file", "distillation_weight": 0.5,
    "test_file": None,
}  # fmt: skip
OUR_FLAGS = {
    **FINE_TUNING_FLAGS,
    "train_file": None, "predict_file": None, "header": True, "text_column": ["text"], "label_column": "label",
    "metric_for_best_model": None, "xnli_language": None, "problem_type": "single_label", "label_separator": ",",
    "class_weights": None, "label_smoothing": 0.0, "rename_labels": [], "early_stopping": 0, "fit_temperature": False,
    "fit_thresholds": False, "long_text": "truncate", "doc_stride": None, "max_windows": 32, "fit_abstention": None,
    "separator": None, "encoding": None, "label_columns": None, "drop_empty": False,
}  # fmt: skip

# google-research/bert, run_squad.py.
GOOGLE_SQUAD_FLAGS = {
    "bert_config_file": None, "vocab_file": None, "output_dir": None, "train_file": None, "predict_file": None,
    "init_checkpoint": None, "max_seq_length": 384, "doc_stride": 128, "max_query_length": 64, "do_train": False,
    "do_predict": False, "train_batch_size": 32, "predict_batch_size": 8, "learning_rate": 5e-5,
    "num_train_epochs": 3.0, "warmup_proportion": 0.1, "save_checkpoints_steps": 1000, "iterations_per_loop": 1000,
    "n_best_size": 20, "max_answer_length": 30, "verbose_logging": False, "version_2_with_negative": False,
    "use_tpu": False, "tpu_name": None, "tpu_zone": None, "gcp_project": None, "master": None, "num_tpu_cores": 8,
}  # fmt: skip
OUR_SQUAD_FLAGS = {
    **FINE_TUNING_FLAGS,
    "null_score_diff_threshold": None,  # Google: 0.0; here unset means what is kept with the model, else 0.0
    "do_eval": False, "eval_batch_size": 8,
}  # fmt: skip

# google-research/bert, run_pretraining.py.
GOOGLE_PRETRAINING_FLAGS = {
    "input_file": None, "bert_config_file": None, "output_dir": None, "init_checkpoint": None, "max_seq_length": 128,
    "max_predictions_per_seq": 20, "do_train": False, "do_eval": False, "train_batch_size": 32, "eval_batch_size": 8,
    "learning_rate": 5e-5, "num_train_steps": 100_000, "num_warmup_steps": 10_000, "save_checkpoints_steps": 1000,
    "iterations_per_loop": 1000, "max_eval_steps": 100, "use_tpu": False, "tpu_name": None, "tpu_zone": None,
    "gcp_project": None, "master": None, "num_tpu_cores": 8,
}  # fmt: skip
OUR_PRETRAINING_FLAGS = {
    **TRAINING_FLAGS,
    "vocab_file": None, "phases": None, "optimizer": "adamw", "objective": "masked_lm", "skip_bad_steps": True,
    "masked_lm_prob": 0.15, "masking": "token", "recipe": None, "dropout_prob": None, "teacher_layer": None,
    "distillation_losses": ["query_relations", "key_relations", "value_relations"], "relation_heads": None,
    "phrase_file": None, "mask_token_prob": 0.8, "random_token_prob": 0.1, "generator_size": 0.25,
    "average_weights": 0.0, "start_embeddings": "random", "start_positions": "random", "embedding_lr_factor": 1.0,
}  # fmt: skip

# google-research/bert, create_pretraining_data.py.
GOOGLE_DATA_FLAGS = {
    "input_file": None, "output_file": None, "vocab_file": None, "do_whole_word_mask": False, "max_seq_length": 128,
    "max_predictions_per_seq": 20, "random_seed": 12345, "dupe_factor": 10, "masked_lm_prob": 0.15,
    "short_seq_prob": 0.1,
}  # fmt: skip
OUR_DATA_FLAGS = {
    "do_lower_case": None,  # Google: True; here unset means what the vocabulary's neighbour says, else True
    "input_format": None, "text_column": "text", "document_start": None, "language": "en", "drop_junk_lines": False,
    "masking": "token", "sentence_objective": "nsp", "packing": False,
    "max_sentences_per_seq": 8, "dynamic_masking": False, "num_shards": None, "num_workers": None, "work_dir": None,
    "runner": None, "beam_options": "", "phrase_file": None, "mask_token_prob": 0.8, "random_token_prob": 0.1,
    "init_checkpoint": None, "word_segmenter": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("run_classifier", GOOGLE_FLAGS | OUR_FLAGS),
        ("run_squad", GOOGLE_SQUAD_FLAGS | OUR_SQUAD_FLAGS),
        ("run_pretraining", GOOGLE_PRETRAINING_FLAGS | OUR_PRETRAINING_FLAGS),
        ("create_pretraining_data", GOOGLE_DATA_FLAGS | OUR_DATA_FLAGS),
    ],
)
def test_flags_and_their_defaults(name, expected):
    assert {flag.name: flag.default for flag in _programs()[name].FLAGS} == expected


def test_every_measurement_is_listed_and_says_how_it_is_started():
    listed = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "benchmarks").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert f"`{path.name}`" in listed, path.name
        if 'if __name__ == "__main__"' in text:
            assert f"benchmarks/{path.name}" in ast.get_docstring(ast.parse(text)), path.name
