"""What commands of the documentation read, where no earlier command of the page has made it: models, tables, texts."""

import json
import os
import pathlib
import re
import shutil

from bert_tf.checkpoints import writers
from bert_tf.checkpoints.model_arrays import ModelArrays
from bert_tf.cli.commands import find
from bert_tf.tokenization.wordpiece import WordPieceTokenizer
from tests import sentence_folders, tiny
from tests.documentation import checks, tables
from tests.export.conversion import models
from tests.tasks.question_answering import support as squad

LENGTH = 512
_DEEP = (r"model edit|--teacher", 6), (r"inspect features|--feature_layers=", 4)  # commands that need so many layers
_SERVED = {"squad": "run_squad", "swag": "run_multiple_choice", "names": "run_tagger", "embedder": "run_embedder",
           "rank": "run_reranker"}
_MODEL_FLAGS = ("init_checkpoint", "model", "teacher", "from", "average")
_OF_TEXT = ("train_vocabulary", "extend_vocabulary", "create_pretraining_data", "pretrain_small")
_TUNED = ("tune", "run_glue", "cross_validate")
# Each time into a folder of its own.
_ANEW = ("convert", "extend_vocabulary", "pretrain_small", "edit_model", "tune", "cross_validate")


class Library:
    """Trained models, made once.

    Args:
        folder: where they lie.
        runner: runs the programs that train them.
    """

    def __init__(self, folder: pathlib.Path, runner):
        self.folder, self.runner = folder, runner

    def trained(self, program: str, *more: str) -> pathlib.Path:
        """Returns what a fine-tuning program left in its --output_dir, an export in it."""
        home = self.folder / "-".join([program, *map(_plain, more)])
        if not (home / "out").exists():
            home.mkdir()
            ending = {"run_squad": "json", "run_multiple_choice": "jsonl", "run_reranker": "jsonl"}.get(program, "tsv")
            data = more or [f"--train_file=train.{ending}", f"--eval_file=dev.{ending}"]
            words = [*data, "--init_checkpoint=start", "--output_dir=out", "--do_train", "--do_eval", "--do_export",
                     "--num_train_epochs=1"]  # fmt: skip
            words += ["--max_seq_length=64"] * (program != "run_squad")  # its windows overlap by more
            Inputs(home, self, "", ()).provide(program, *checks.read(program, words))
            ended = self.runner.run(home, program, words)
            assert ended["status"] == 0, ended["log"][-6000:]
        return home / "out"


def _plain(word):
    return word.strip("-").replace("=", "-").replace("/", "-")


class Inputs:
    """What the commands of one page read.

    Args:
        folder: where they are run.
        library: of what is made once for all pages.
        page: its text.
        found: its commands.
    """

    def __init__(self, folder, library, page, found):
        self.folder, self.library, self._page = folder, library, page
        words = [" ".join(command.words) for command in found]
        self._layers = next((n for pattern, n in _DEEP if any(re.search(pattern, each) for each in words)), 1)

    def provide(self, program, settings, rest=()):
        """Makes what a command line names and nothing has made yet.

        Args:
            program: its name.
            settings: of it.
            rest: words that are no flags.
        """
        for name in sorted(settings.given, key=lambda name: name != "vocab_file"):
            for make in filter(None, [self._maker(program, name, settings)]):
                for value in values(settings.get(name)):
                    if not self._is_there(value):
                        self._path(value).parent.mkdir(parents=True, exist_ok=True)
                        make(self._path(value))
        if program in _TUNED and rest:
            inner, words = "run_classifier", rest
            if program == "tune":
                inner, _, words = find(rest)
            self.provide(inner, checks.read(inner, words, is_cut=True)[0])
        if program in ("compare", "verify"):
            for value in rest:
                made = self.library.trained("run_classifier")
                self._copy(made if program == "compare" else made / "export", value)

    def make_room(self, program, settings):
        """Puts aside what another command of the page has made under the same name: they are examples of their own."""
        if settings.get("do_train") or program in _ANEW or settings.get("glue_dir") or settings.get("tables"):
            for flag in {"output_dir", "to"} & settings.given:
                path = self._path(settings.get(flag))
                if path.exists():
                    path.rename(f"{path}.{len(list(path.parent.iterdir()))}")

    def provide_words(self, words):
        """Makes what a command of the shell names: a version of a model, the file of a key."""
        for word in words[1:]:
            if found := re.fullmatch(r"(models/\w+)/\d+", word):
                self._copy(self.library.trained("run_classifier") / "export", found[1])
            elif word.endswith(".pem"):
                (self.folder / word).write_text("-----BEGIN PRIVATE KEY-----\n", encoding="utf-8")

    def make_small(self):
        """Makes the shape of a model that a page describes a tiny one, for the vocabulary that is there."""
        for path in self.folder.glob("*.json"):
            values = json.loads(path.read_text(encoding="utf-8"))
            if "hidden_size" in values:
                pieces = (self.folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
                small = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64, "vocab_size": len(pieces)}
                path.write_text(json.dumps(values | small), encoding="utf-8")

    def exported(self, model: str) -> pathlib.Path:
        """Returns the base path of an export for requests that name the model so: the page's own, else one is made."""
        own = self.folder / "models" / model
        if own.is_dir():
            return own
        base = self.folder / "served" / model
        self._export(base, model)
        return base

    def _path(self, value):
        return self.folder / value

    def _is_there(self, value):
        path = str(self._path(value))
        return os.path.exists(path) or os.path.exists(f"{path}.index") or any(self.folder.glob(value.lstrip("/")))

    def _copy(self, source, value):
        if not self._is_there(value):
            shutil.copytree(source, self._path(value))

    def _maker(self, program, name, settings):
        """Returns what makes the file or folder that a flag names, or None."""
        if name in tables.TABLE_FLAGS and program in tables.TABLES:
            return lambda path: tables.TABLES[program](path, settings, name)
        if name in _MODEL_FLAGS:
            return self._model_maker(program, name, settings)
        if name in ("input_file", "eval_file", "calibration_file"):
            if program == "run_pretraining":
                return lambda path: self._records(path, settings)
            return tables.corpus if program in _OF_TEXT else lambda path: tables.texts(path, settings)
        if name == "output_dir" and self._reads_output(program, settings):
            return lambda path: shutil.copytree(self.library.trained(program), path)
        if name == "compare":
            return lambda path: self._grid(path)
        if name == "model_base_path":
            return lambda path: self._export(path, settings.model_name)
        return {
            "vocab_file": tables.vocabulary,
            "bert_config_file": lambda path: self._shape(path, settings),
            "words_file": lambda path: path.write_text("dyspnea\ntachycardia\n", encoding="utf-8"),
            "data_file": lambda path: squad.write(path, squad.questions(6), version_2="2.0" in path.name),
            "predictions_file": lambda path: path.write_text(json.dumps({f"q{n}": "good" for n in range(6)}), "utf-8"),
            "null_odds_file": lambda path: path.write_text(json.dumps({f"q{n}": 0.5 for n in range(6)}), "utf-8"),
            "data_dir": lambda path: tables.write_glue(path, settings.task_name),
            "glue_dir": lambda path: tables.write_all_of_glue(path, settings.tasks),
            "tables": self._tables,
            "reader": lambda path: self._export(path, "squad"),
            "rerank": lambda path: self._export(path, "rank"),
            **dict.fromkeys(tables.OF_RUNS, tables.of_runs),
            "model_config_file": self._model_config,
        }.get(name)

    def _reads_output(self, program, settings):
        return "do_train" in settings and not settings.do_train and not settings.get("init_checkpoint")

    def _model_maker(self, program, name, settings):
        if program == "predict":
            return lambda path: self._export(path, "classifier")
        is_task = program in tables.TABLES and "do_train" in settings
        if is_task and name == "teacher":
            return lambda path: shutil.copytree(self.library.trained(program), path)
        if is_task and not settings.do_train:
            more = ("--task_name=mnli", "--data_dir=mnli") if settings.get("task_name") == "ax" else ()
            return lambda path: shutil.copytree(self.library.trained(program, *more), path)
        explains = program == "visualize" and settings.target is not None
        if explains or program == "export" and not settings.hub:
            return self._trained_or_encoder
        return lambda path: checkpoint(path, self._layers, settings.get("do_lower_case") is not False)

    def _trained_or_encoder(self, path):
        if "minilm" in path.name.lower():
            checkpoint(path, self._layers)
        else:
            shutil.copytree(self.library.trained("run_classifier"), path)

    def _export(self, path, model):
        source = self.library.trained(_SERVED.get(model, "run_classifier")) / "export" / "1"
        versions = {"1", *re.findall(r"/versions/(\d+)", self._page), *re.findall(r"versions: (\d+)", self._page)}
        for version in versions:
            shutil.copytree(source, path / version)

    def _model_config(self, path):
        """Writes the configuration that the page shows, and the models in it."""
        (text,) = re.findall(r"^model_config_list \{\n.*?^\}\n", self._page, re.MULTILINE | re.DOTALL)
        text = re.sub(r'"/srv/', f'"{self.folder}/srv/', text)
        path.write_text(text, encoding="utf-8")
        for name, base in re.findall(r'name: "(\w+)"\s+base_path: "(.*?)"', text):
            self._export(pathlib.Path(base), name)

    def _tables(self, path):
        """Writes the tables that the page shows, and their files."""
        (text,) = re.findall(r"^```json\n(.*?)^```$", self._page, re.MULTILINE | re.DOTALL)
        path.write_text(text, encoding="utf-8")
        for values in json.loads(text).values():
            columns = values.get("text_column", ["text"])
            label = values.get("label_column", "label")
            for name in ("train_file", "eval_file"):
                (self.folder / values[name]).parent.mkdir(parents=True, exist_ok=True)
                scores = values.get("problem_type") == "regression"
                rows = tables.rows_for(len(columns), name, scores)
                tables.write_table(self.folder / values[name], columns, label, rows)

    def _grid(self, path):
        """Makes another grid, or another run, of one that is there."""
        beside = self._path(path.name.removeprefix("other_"))
        if beside.exists():
            shutil.copytree(beside, path)
            return
        for run in (path, beside):
            shutil.copytree(self.library.trained("run_classifier"), run)

    def _shape(self, path, settings):
        pieces = self._path(settings.vocab_file).read_text(encoding="utf-8").splitlines()
        tiny.config(vocab_size=len(pieces), max_position_embeddings=LENGTH).save(path)

    def _records(self, path, settings):
        """Has records made under the name that a pattern finds, of the length that their folder is called after."""
        number = re.search(r"\d+", path.parent.name)
        length = number[0] if number else settings.max_seq_length
        vocab = self._path(settings.vocab_file or "vocab.txt")
        if not vocab.exists():
            tables.vocabulary(vocab)
        corpus = self.folder / "text-of-records"
        if not corpus.exists():
            tables.corpus(corpus)
        output = str(path).replace("*", "0.tfrecord")
        words = [f"--input_file={corpus}", f"--vocab_file={vocab}", f"--output_file={output}", "--dupe_factor=1",
                 f"--max_seq_length={length}", "--num_workers=1"]  # fmt: skip
        ended = self.library.runner.run(self.folder, "create_pretraining_data", words)
        assert ended["status"] == 0, ended["log"][-6000:]


def checkpoint(path: pathlib.Path, layers: int, lower: bool = True):
    """Writes a tiny BERT with both heads of its pretraining, in the form that its name asks for.

    That is Transformers', with sentence-transformers' files where the name has MiniLM or splade in it; or
    google-research/bert's, where it is the name of such a release, or the prefix of its weights.
    """
    folder = path.parent if path.name == "bert_model.ckpt" else path
    is_google = bool(re.search(r"cased_L-\d+_H-\d+", str(path)))
    shape = {"num_hidden_layers": layers, "num_attention_heads": 4, "max_position_embeddings": LENGTH}
    config = tiny.config(0.1, hidden_act="gelu_tanh" if is_google else "gelu", **shape)
    model = ModelArrays(config, models.arrays(config, "pretraining"), WordPieceTokenizer(list(tiny.VOCAB), lower))
    folder.mkdir(parents=True, exist_ok=True)
    writers.write_model(folder, "tf1" if is_google else "huggingface", model)
    if is_google:
        (folder / "tokenizer_config.json").unlink(missing_ok=True)  # the releases have none
    if "minilm" in folder.name.lower():
        sentence_folders.write(folder)
    if "splade" in folder.name.lower():
        kinds = (("MLMTransformer", ""), ("SpladePooling", "1_SpladePooling"))
        sentence_folders.write(folder, kinds, **{"1_SpladePooling__config": {}})


def values(value):
    return value if isinstance(value, list) else [value]
