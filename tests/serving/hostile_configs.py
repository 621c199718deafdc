"""What a server reads beside inference: requests to reload its config, and warm-up requests that versions bring.

A seed repeats them.
"""

import os
import pathlib
import random
import shutil
from collections.abc import Callable, Iterable

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2, prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from bert_tf.serving.server import warmup
from tests.serving.hostile import Hostile

_METHOD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
_LOGS = {"Predict": "predict_log", "Classify": "classify_log", "Regress": "regress_log",
         "MultiInference": "multi_inference_log"}  # fmt: skip


class Configs:
    """Configs in which the models that are served always stand, with others that are none.

    What takes the served models away is an operator's right where reloading is offered, and no abuse.

    Args:
        models: {name: base path} of those that are served.
        folder: for broken models, whose base paths are named in requests.
    """

    def __init__(self, models: dict[str, os.PathLike], folder: pathlib.Path):
        self._models = {name: os.fspath(path) for name, path in models.items()}
        self._paths = [*_broken_models(folder), "/proc", "/dev", "/proc/self/fd", "/nowhere", "relative", "", "/", "\0",
                       "gs://bucket/x", "/" + "x" * 300, "../" * 50, "file:///etc"]  # fmt: skip

    def text(self) -> str:
        """Returns the config of the models that are served, as a file has it."""
        return text_format.MessageToString(self._good())

    def request(self, rng: random.Random) -> Hostile:
        """Returns a request to reload: this config and more, or no config at all."""
        request = model_management_pb2.ReloadConfigRequest(config=self._good())
        if rng.random() < 0.2:
            return Hostile("reload", rng.randbytes(rng.randrange(100)) + b"\xff", _METHOD)
        listed = request.config.model_config_list.config
        for _ in range(rng.choice((0, 1, 1, 2, 100))):
            self._add_broken(rng, listed)
        request.metric_names.extend(rng.choice(((), ("",), ("x",) * 1000, (":tensorflow:serving:request_count",))))
        return Hostile("reload", request.SerializeToString(), _METHOD)

    def _good(self):
        config = model_server_config_pb2.ModelServerConfig()
        for name, path in self._models.items():
            config.model_config_list.config.add(name=name, base_path=path, model_platform="tensorflow")
        return config

    def _add_broken(self, rng, listed):
        name = rng.choice((*self._models, "", "new", "new", "../x", "é" * 300, "\n"))
        platform = rng.choice(("tensorflow", "tensorflow", "tensorflow", "", "other"))
        item = listed.add(name=name, base_path=rng.choice(self._paths), model_platform=platform)
        choice = rng.randrange(5)
        if choice == 0:
            item.model_version_policy.specific.versions.extend(rng.choice(([1], [-1], [2**62], [], range(1000))))
        elif choice == 1:
            item.model_version_policy.latest.num_versions = rng.choice((0, 1, 2**32 - 1))
        elif choice == 2:
            item.version_labels.update({rng.choice(("stable", "", "é")): rng.choice((1, -1, 2**62))})
        elif choice == 3:
            item.model_version_policy.all.SetInParent()


def _broken_models(folder):
    """Makes base paths with a version that no server may stumble over; returns them."""
    for name in ("pipe", "circle", "noise", "folders"):
        (folder / name / "1").mkdir(parents=True)
    os.mkfifo(folder / "pipe" / "1" / "saved_model.pb")
    (folder / "circle" / "2").symlink_to("2")
    (folder / "circle" / "1" / "saved_model.pb").symlink_to("saved_model.pb")
    (folder / "noise" / "1" / "saved_model.pb").write_bytes(random.Random(0).randbytes(5000))
    (folder / "folders" / "1" / "saved_model.pb").mkdir()
    return [os.fspath(path) for path in sorted(folder.iterdir())]


def write_version(aside: pathlib.Path, version: pathlib.Path, like: pathlib.Path, requests: Iterable[Hostile],
                  parse: Callable[[Hostile], object]):  # fmt: skip
    """Publishes a copy of the version in `like` as `version`, with `requests` to warm up with.

    Args:
        aside: where it is made; on the same disk.
        version: its folder.
        like: a version.
        requests: for gRPC; those that are none of inference, or no message at all, are left out.
        parse: gives the message of a request, None for one that holds none.
    """
    shutil.copytree(like, aside)
    file = aside / warmup.FILE
    file.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(file)) as writer:
        for request in requests:
            kind = _LOGS.get(request.method.rpartition("/")[2])
            message = kind and parse(request)
            if message is None:
                continue
            log = prediction_log_pb2.PredictionLog()
            getattr(log, kind).request.CopyFrom(message)
            writer.write(log.SerializeToString())
    aside.rename(version)
