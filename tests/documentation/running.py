"""Runs commands of the documentation as they stand there, on tiny models and files under the names that they have.

What would only take longer is less than a page says (`SHORTER`), servers listen on free ports, and what is on no disk
yet is made by `inputs`. Programs that a program starts run in one process too, and of many alike only the first: the
others are given what it left.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

from tests import processes
from tests.documentation import checks, children, commands, inputs
from tests.serving.server_process import wait_for

SHORTER = {"num_train_steps": 10, "num_warmup_steps": 2, "save_checkpoints_steps": 5, "seconds": 0.3}
SHORTER |= {"matryoshka_dims": "32,16", "dim": 16}  # the tiny models have 32 dimensions
_RECIPE = ["--num_train_steps=10", "--num_warmup_steps=2", "--train_batch_size=32"]  # in place of the recipe's own
_MORE = {
    "serve": ["--port=0", "--rest_api_port=0"],
    "load_test": ["--warmup_seconds=0.1", "--seconds=0.3"],
    "create_pretraining_data": ["--num_workers=1"],
}
_LIMIT_S = 600  # after which a server does not start, on however busy a machine
_STATUS = {"doctor": (0, 1)}  # 1: this machine has a fault
_OUTPUTS = ("output_dir", "output_file", "export_dir", "index_dir", "to")
# The first words of a command -> why it is not run.
NOT_RUN = {
    "make": "the target's own tests run it, or it runs the tests",
    "pip": "installs from an index",
    "python -m pip": "tests/cli/wheel_test.py builds and installs the wheel",
    "python -m pytest": "is a test",
    "python benchmarks/": "measures for hours",
    "python tools/split_files.py": "tests/split_files_test.py runs it",
    "python parts/join_files.py": "tests/split_files_test.py runs it",
    "curl -O": "fetches weights",
    "unzip": "unpacks what was not fetched",
    "docker": "needs Docker",
    "kubectl": "needs a cluster",
    "tensorflow_model_server": "is another program; `make test-serving` asks it",
    "bert-tf demo": "fetches weights and texts",
    "bert-tf pretrain run --distribution_strategy=multi_worker": "needs several machines; multi_worker_test runs it",
    "bert-tf train rating": "tests/integration/frame_test.py runs the page's task",
    "bert-tf data check --task=rating": "tests/integration/frame_test.py runs the page's task",
}

# What needs a package that is not installed with the others -> the package.
_PACKAGES = {"--word_segmenter=jieba": "jieba", "--export_for=onnx": "tf2onnx", "--export_for=openvino": "openvino"}


def reason(command: commands.Command) -> str | None:
    """Returns why a command is not run; None: it is."""
    first, *more = command.words
    words = " ".join(["python" if commands.is_python(first) else pathlib.PurePath(first).name, *more])
    for begin, why in NOT_RUN.items():
        if words.startswith(begin):
            return why
    if command.is_cut:
        return "is cut"
    for word, package in _PACKAGES.items():
        if word in more and not importlib.util.find_spec(package):
            return f"needs {package}"
    if any(word.startswith("--runner=") and not word.endswith("=DirectRunner") for word in more):
        return "needs a cluster"
    return None


class Page:
    """The commands of a page, which are run in a folder of its own.

    Args:
        page: its name.
        found: its commands.
        folder: where they are run.
        runner: of all pages.
        library: of what is made once for all pages.
    """

    def __init__(self, page, found, folder, runner, library):
        self.folder, self.runner, self.ports, self.servers = folder, runner, {}, []
        self.inputs = inputs.Inputs(folder, library, page, found)

    def run(self, command: commands.Command):
        """Runs one of them; fails where it does."""
        words = [self._here(word) for word in command.words]
        if command.program:
            self._run_program(command.program, self._here_all(command.arguments))
        elif words[0] == "curl":
            self._ask(words[1:])
        else:
            self._run_in_shell(command, words)

    def end(self):
        """Stops the servers."""
        for server in self.servers:
            server.terminate()
            server.join()
            assert server.exitcode == 0

    def _here(self, word):
        return re.sub(r"(^|=|,)/(srv|mnt)/", rf"\1{self.folder}/\2/", word)

    def _here_all(self, words):
        return [self._here(word) for word in words]

    def _run_program(self, name, words):
        settings, rest = checks.read(name, words)
        self.inputs.provide(name, settings, rest)
        self.inputs.make_room(name, settings)
        own, dashes, others = _partition(words)
        own = [_shorter(word) for word in own] + _MORE.get(name, []) + _RECIPE * bool(settings.get("recipe"))
        if name == "serve":
            self._serve(settings, own)
            return
        if name in ("ask", "load_test") or name == "verify" and settings.server:
            port, _ = self._ports_of(settings.model_name, rest[0] if name == "verify" else None)
            own = [word for word in own if not word.startswith("--server=")] + [f"--server=localhost:{port}"]
        before = self._outputs(settings)
        ended = self.runner.run(self.folder, name, [*own, *dashes, *others])
        assert ended["status"] in _STATUS.get(name, (0,)), ended["log"][-6000:]
        after = self._outputs(settings)
        assert after == before if settings.get("dry_run") else all(after.values()), after

    def _outputs(self, settings):
        """Returns what lies under the name of each output of a command line, whose shards have numbers behind it."""
        found = {}
        for flag in set(_OUTPUTS) & settings.given:
            for value in inputs.values(settings.get(flag)):
                name, *_ = value.removeprefix(f"{self.folder}/").rstrip("/").split(".")
                found[value] = sorted(self.folder.glob(f"{name}*"))
        return found

    def _serve(self, settings, words):
        log = self.folder / f"server-{len(self.servers)}.log"
        log.touch()
        server = processes.start(_serve, os.fspath(self.folder), words, os.fspath(log))
        self.servers.append(server)
        pattern = r"gRPC on [^ ]+:(\d+), REST on \w+://[^ ]+:(\d+)/"
        found = wait_for(lambda: re.search(pattern, log.read_text("utf-8")) or not server.is_alive(), _LIMIT_S)
        assert found is not True, log.read_text("utf-8")
        names = [settings.model_name]
        if settings.model_config_file:
            names = re.findall(r'name: "(\w+)"', pathlib.Path(settings.model_config_file).read_text("utf-8"))
        self.ports |= dict.fromkeys(names, (int(found[1]), int(found[2])))

    def _ports_of(self, model, base=None):
        """Returns the ports of gRPC and REST of a model's server; one is started where no command has done so."""
        if model not in self.ports:
            words = [f"--model_base_path={base or self.inputs.exported(model)}", f"--model_name={model}"]
            words += _MORE["serve"]
            self._serve(checks.read("serve", words)[0], words)
        return self.ports[model]

    def _ask(self, words):
        data = words[words.index("-d") + 1] if "-d" in words else None
        (url,) = [word for word in words if word.startswith("http")]
        model = re.search(r"/models/(\w+)", url)
        port = self._ports_of(model[1] if model else "default")[1]
        url = url.replace("localhost:8501", f"localhost:{port}")
        with urllib.request.urlopen(url, data.encode() if data else None) as answer:
            assert "error" not in json.load(answer)

    def _run_in_shell(self, command, words):
        self.inputs.provide_words(words)
        if commands.is_python(words[0]):
            subprocess.run([sys.executable, *words[1:]], cwd=self.folder, check=True, stdout=subprocess.PIPE)
        else:
            subprocess.run(command.text, cwd=self.folder, check=True, shell=True, stdout=subprocess.PIPE)
            self.inputs.make_small()


def _partition(words):
    """Returns the words before `--`, it, and those behind."""
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place : place + 1], words[place + 1 :]


def _shorter(word):
    name = word.removeprefix("--").partition("=")[0]
    return f"--{name}={SHORTER[name]}" if name in SHORTER and word.startswith("--") else word


def _serve(folder, words, log):
    os.chdir(folder)
    for stream in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), stream)
    from bert_tf.cli.main import start_program

    start_program("serve", words)


class Runner:
    """A process that runs one command line after the other, in any folder; to be used in a `with`."""

    def __init__(self):
        self._connection, other = processes.pipe()
        self._process = processes.start(children.run_all, other)
        other.close()

    def run(self, folder, name, words):
        """Returns what `run_cases.run` does."""
        self._connection.send((os.fspath(folder), name, list(words)))
        return self._connection.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.send(None)
        self._process.join()
