"""The models of a server: TensorFlow Serving's ModelServerConfig, from a file or from a reload request."""

import dataclasses
import os
import re
import time
from collections.abc import Sequence

from absl import logging

from bert_tf.serving.errors import ServingError, invalid
from bert_tf.serving.server import text_configs
from bert_tf.serving.server.tensorflow_messages import model_server_config_pb2
from bert_tf.serving.server.version_policy import ALL, LATEST, Policy

_PLATFORM = "tensorflow"
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model of a server.

    Attributes:
        name: name in requests.
        base_path: directory with one numbered directory per version.
        policy: which versions are served.
        labels: {label: version} for requests by label.
    """

    name: str
    base_path: str
    policy: Policy = LATEST
    labels: dict[str, int] = dataclasses.field(default_factory=dict)


def read_configs(config: model_server_config_pb2.ModelServerConfig) -> list[ModelConfig] | None:
    """Returns the models that a ModelServerConfig lists, in order; None if it sets nothing at all.

    `model_config_list {}` lists no models. If nothing is set, as in an empty file, TensorFlow Serving takes no
    action, and so must the caller.

    Raises:
        ServingError: its models cannot be served, in TensorFlow Serving's words if it has this error.
    """
    if config.WhichOneof("config") == "custom_model_config":
        raise invalid("ModelServer does not yet support custom model config.")
    if config.WhichOneof("config") is None:
        return None
    found: dict[str, ModelConfig] = {}
    for item in config.model_config_list.config:
        if not item.name:
            raise invalid("Found a model without a name in the config list")
        if item.name in found:
            raise invalid(f"Illegal to list model {item.name} multiple times in config list")
        _check_platform(item)
        if not os.path.isabs(item.base_path) or _SCHEME.match(item.base_path):
            raise invalid(
                f"Expected model {item.name} to have an absolute path or URI; got base_path()={item.base_path}"
            )
        if item.HasField("logging_config"):
            logging.warning("The logging_config of model %s has no effect: requests are not logged.", item.name)
        found[item.name] = ModelConfig(item.name, item.base_path, _policy(item), dict(item.version_labels))
    return list(found.values())


def read_model_config(path: str) -> list[ModelConfig] | None:
    """Returns the models that the text file `path`, a ModelServerConfig, lists; None if it sets nothing.

    Raises:
        ValueError: it cannot be read, or its models cannot be served.
    """
    try:
        return read_configs(text_configs.parse_message(path, model_server_config_pb2.ModelServerConfig))
    except ServingError as error:
        reason = error.message
    except (OSError, ValueError) as error:
        reason = str(error).rstrip(".")
    raise ValueError(
        "`model_config_file` must be a ModelServerConfig in protocol buffers' text format, with a name, an absolute "
        f'base_path and model_platform: "tensorflow" for each model. Cannot use {path}: {reason}.'
    )


class ConfigFile:
    """A config file that is polled.

    Args:
        registry: the registry with its models.
        path: path of the file.
        applied: its content when the registry got its models.
        retry_seconds: after which a file that could not be applied is tried again even without changes.
    """

    def __init__(self, registry, path: str, applied: Sequence[ModelConfig], retry_seconds: float = 60.0):
        self._registry, self._path, self._retry_seconds = registry, path, retry_seconds
        self._applied = list(applied)
        self._complaint = ""
        self._failed, self._again = None, 0.0

    def poll(self):
        """Applies the file if it has changed; if that fails, the reason is logged once, and nothing changes.

        A file that sets nothing, as while an editor writes it, changes nothing either.
        """
        complaint = ""
        try:
            configs = read_model_config(self._path)
            if configs is None:
                complaint = "it sets nothing. To unload all models, write `model_config_list {}`"
            elif configs == self._failed and time.monotonic() < self._again:
                return
            elif configs != self._applied:
                self._failed, self._again = configs, time.monotonic() + self._retry_seconds
                self._registry.apply(configs)
                self._applied, self._failed = configs, None
                logging.info("Applied %s: %s.", self._path, ", ".join(each.name for each in configs) or "no model")
        except (ValueError, ServingError) as error:
            complaint = str(error)
        if complaint and complaint != self._complaint:
            logging.error("%s was not applied, and the models are unchanged: %s", self._path, complaint)
        self._complaint = complaint


def _check_platform(item):
    both = "ModelServerConfig::model_type (deprecated) {} ModelServerConfig::model_platform, model name is " + item.name
    if item.model_type and item.model_platform:
        raise invalid(f"Illegal setting both {both.format('and')}")
    if not item.model_type and not item.model_platform:
        raise invalid(f"Illegal setting neither {both.format('nor')}")
    if item.model_type not in (0, model_server_config_pb2.TENSORFLOW):
        raise invalid(f"ModelServerConfig::model_type choice {item.model_type} not supported.")
    if item.model_platform not in ("", _PLATFORM):
        raise invalid(f"Model {item.name} requests unsupported platform {item.model_platform}")


def _policy(item):
    kind = item.model_version_policy.WhichOneof("policy_choice")
    if kind == "all":
        return ALL
    if kind == "specific":
        if not item.model_version_policy.specific.versions:
            raise invalid(f"The specific policy of model {item.name} lists no versions")
        return Policy(versions=frozenset(item.model_version_policy.specific.versions))
    return Policy(newest=max(1, item.model_version_policy.latest.num_versions))
