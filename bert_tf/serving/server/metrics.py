"""Prometheus metrics of a server, under TensorFlow Serving's names: its paths with `:` instead of `/`.

The metrics are per process, as in TensorFlow Serving, even with several servers in it. `model` is always the
name of a served model, or "": a label that callers can choose freely would grow without bound.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator

import grpc
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bert_tf.serving.errors import ServingError
from bert_tf.serving.server import text_configs
from bert_tf.utils.token_counts import TokenCounts

PATH = "/monitoring/prometheus/metrics"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_REGISTRY = CollectorRegistry()
_LATENCY = [10 * 1.8**i for i in range(33)]  # 10 us to 20 minutes
_QUEUING = [100 * 1.2**i for i in range(52)]
_SIZES = [2**i for i in range(15)]


def _histogram(name, meaning, labels, buckets):
    return Histogram(f":tensorflow:serving:{name}", meaning, labels, registry=_REGISTRY, buckets=buckets)


_REQUESTS = Counter(
    ":tensorflow:serving:request_count", "Requests by status.", ["model_name", "status"], registry=_REGISTRY
)
_REQUEST_LATENCY = _histogram(
    "request_latency", "Microseconds from request to response.", ["model_name", "API", "entrypoint"], _LATENCY
)
# `runtime` is "TF1", TensorFlow Serving's word for a session.
RUNTIME_LATENCY = _histogram(
    "runtime_latency", "Microseconds in the graph.", ["model_name", "API", "runtime"], _LATENCY
)
WARMUP_LATENCY = _histogram(
    "model_warmup_latency", "Microseconds of a version's warm-up.", ["model_path", "status"], _LATENCY
)
QUEUING_LATENCY = _histogram("batching_session:queuing_latency", "Microseconds in the queue.", ["model_name"], _QUEUING)
BATCH_SIZE = _histogram("batching_session:processed_batch_size", "Rows per batch.", ["model_name"], _SIZES)
PADDING = _histogram("batching_session:padding_size", "Padding tokens per batch.", ["model_name"], _SIZES)
_TOKENS = {
    name: Counter(f":bert_tf:serving:{name}", f"{meaning}.", ["model_name"], registry=_REGISTRY)
    for name, meaning in (
        ("text_count", "Texts or pairs of texts in requests"),
        ("truncated_text_count", "Texts that exceed the maximum length"),
        ("token_count", "Tokens of the texts"),
        ("unknown_token_count", "Tokens that are not in the vocabulary"),
        ("unknown_text_count", "Texts that consist mostly of such tokens"),
    )
}
QUEUE_LENGTH = Gauge(":bert_tf:serving:queue_length", "Requests currently waiting.", ["model_name"], registry=_REGISTRY)


def observe_request(model: str, api: str, entrypoint: str, status: str, seconds: float):
    """Counts one request, and its latency if it succeeded, because fast rejections would distort the latencies.

    Args:
        model: its name, or "" if no such model is served.
        api: "Predict", "Classify", "Regress" or "MultiInference" of gRPC; of REST, "predict", "classify" or "regress",
            the name of another protocol, and "" for queries about a model.
        entrypoint: "GRPC" or "REST".
        status: name of its canonical code, "OK" or "INVALID_ARGUMENT" and the like.
        seconds: from its arrival to its answer.
    """
    _REQUESTS.labels(model, status).inc()
    if status == "OK":
        _REQUEST_LATENCY.labels(model, api, entrypoint).observe(seconds * 1e6)


def observe_tokens(model: str, counts: TokenCounts):
    """Counts the texts and tokens of a request."""
    for counter, count in zip(_TOKENS.values(), counts, strict=True):
        if count:
            counter.labels(model).inc(count)


@contextlib.contextmanager
def request(registry, spec, api: str | Callable[[], str], entrypoint: str) -> Iterator:
    """Counts the block as one request, with the status of the block: OK, a ServingError or an internal error.

    Args:
        registry: registry of the served models.
        spec: the ModelSpec that names the model at the end of the block.
        api: as in `observe_request`, or a function that returns it at the end of the block.
        entrypoint: "GRPC" or "REST".
    """
    started, status = time.monotonic(), grpc.StatusCode.INTERNAL.name
    try:
        yield
        status = "OK"
    except ServingError as error:
        status = error.code.name
        raise
    finally:
        known = spec.name if spec.name in registry.names() else ""
        observe_request(known, api if isinstance(api, str) else api(), entrypoint, status, time.monotonic() - started)


@contextlib.contextmanager
def rejections(api: str) -> Iterator:
    """Counts the block as one request over gRPC if it raises, before the request is read and its model known."""
    try:
        yield
    except ServingError as error:
        observe_request("", api, "GRPC", error.code.name, 0)
        raise


def count_of(path: str) -> int:
    """Returns a counter, or the count of a histogram, summed over all labels; 0 if there is none.

    Args:
        path: TensorFlow's name for it, such as "/tensorflow/serving/request_count".
    """
    name = path.replace("/", ":")
    samples = [sample for metric in _REGISTRY.collect() if metric.name == name for sample in metric.samples]
    return int(sum(sample.value for sample in samples if sample.name in (f"{name}_total", f"{name}_count")))


def read_path(file: str) -> str | None:
    """Returns the path of the metrics page from the MonitoringConfig in the text file `file`; None for no page.

    Raises:
        ValueError: the file cannot be read, or its path does not start with a slash.
    """
    config = text_configs.read_message(file, "MonitoringConfig", "monitoring_config_file").prometheus_config
    if not config.enable:
        return None
    if config.path and not config.path.startswith("/"):
        raise ValueError(f"`monitoring_config_file` must have a path that starts with /; got {config.path!r}.")
    return config.path or PATH


def prometheus_text() -> bytes:
    """Returns all metrics in Prometheus's text format, version 0.0.4."""
    text = generate_latest(_Named()).decode()
    # The library ends each counter's name in `_total`; TensorFlow Serving's has no such suffix.
    return re.sub(r"^(# \S+ )?(:\w+:serving:\w+_count)_total\b", r"\1\2", text, flags=re.M).encode()


class _Named:
    """The registry without the creation times of series, which TensorFlow Serving does not have."""

    def collect(self) -> Iterator:
        for metric in _REGISTRY.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
