"""Counters and latencies of a server, for Prometheus under TensorFlow Serving's names: its paths with `:` for `/`.

The figures are the whole process's, as TensorFlow Serving's are, however many servers run in it. `model` is always the
name of a model that is served, or "": a label that callers choose freely would grow without bound.
"""

import contextlib
import re
import time
from collections.abc import Iterator

import grpc
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bert_tf.serving.limits import ServingError
from bert_tf.serving.server import options

PATH = "/monitoring/prometheus/metrics"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_REGISTRY = CollectorRegistry()
_LATENCY = [10 * 1.8**i for i in range(33)]  # 10 us to 20 minutes
_QUEUING = [100 * 1.2**i for i in range(52)]
_SIZES = [2**i for i in range(15)]


def _histogram(name, meaning, labels, buckets):
    return Histogram(f":tensorflow:serving:{name}", meaning, labels, registry=_REGISTRY, buckets=buckets)


_REQUESTS = Counter(
    ":tensorflow:serving:request_count", "Requests by their end.", ["model_name", "status"], registry=_REGISTRY
)
_REQUEST_LATENCY = _histogram(
    "request_latency", "Microseconds from request to answer.", ["model_name", "API", "entrypoint"], _LATENCY
)
# `runtime` is "TF1", TensorFlow Serving's word for a session.
RUNTIME_LATENCY = _histogram(
    "runtime_latency", "Microseconds in the graph.", ["model_name", "API", "runtime"], _LATENCY
)
WARMUP_LATENCY = _histogram(
    "model_warmup_latency", "Microseconds of a version's warm-up.", ["model_path", "status"], _LATENCY
)
QUEUING_LATENCY = _histogram("batching_session:queuing_latency", "Microseconds in the queue.", ["model_name"], _QUEUING)
BATCH_SIZE = _histogram("batching_session:processed_batch_size", "Rows of a batch.", ["model_name"], _SIZES)
PADDING = _histogram("batching_session:padding_size", "Tokens of padding in a batch.", ["model_name"], _SIZES)
QUEUE_LENGTH = Gauge(":bert_tf:serving:queue_length", "Requests that wait now.", ["model_name"], registry=_REGISTRY)


def observe_request(model: str, api: str, entrypoint: str, status: str, seconds: float):
    """Counts one request, and how long it took where it succeeded: refusals are fast, and would hide what answers take.

    Args:
        model: its name, "" where no such model is served.
        api: "Predict", "Classify", "Regress" or "MultiInference" of gRPC; of REST "predict", "classify" or "regress",
            and "" of what only asks about a model.
        entrypoint: "GRPC" or "REST".
        status: name of its canonical code, "OK" or "INVALID_ARGUMENT" and the like.
        seconds: from its arrival to its answer.
    """
    _REQUESTS.labels(model, status).inc()
    if status == "OK":
        _REQUEST_LATENCY.labels(model, api, entrypoint).observe(seconds * 1e6)


@contextlib.contextmanager
def request(registry, model: str, api: str, entrypoint: str) -> Iterator:
    """Counts the block as one request, whose end is that of the block, a ServingError or an error of our own."""
    started, status = time.monotonic(), grpc.StatusCode.INTERNAL.name
    try:
        yield
        status = "OK"
    except ServingError as error:
        status = error.code.name
        raise
    finally:
        known = model if model in registry.names() else ""
        observe_request(known, api, entrypoint, status, time.monotonic() - started)


def count_of(path: str) -> int:
    """Returns what a counter, or the count of a histogram, has come to over all labels; 0 where there is none.

    Args:
        path: TensorFlow's name of it, such as "/tensorflow/serving/request_count".
    """
    name = path.replace("/", ":")
    samples = [sample for metric in _REGISTRY.collect() if metric.name == name for sample in metric.samples]
    return int(sum(sample.value for sample in samples if sample.name in (f"{name}_total", f"{name}_count")))


def read_path(file: str) -> str | None:
    """Returns the path of the page that the MonitoringConfig in the text file `file` wants; None: no page.

    Raises:
        ValueError: the file cannot be read, or its path begins with no slash.
    """
    config = options.read_message(file, "MonitoringConfig", "monitoring_config_file").prometheus_config
    if not config.enable:
        return None
    if config.path and not config.path.startswith("/"):
        raise ValueError(f"`monitoring_config_file` must name a path that begins with /. Received: {config.path!r}.")
    return config.path or PATH


def prometheus_text() -> bytes:
    """Returns all figures in Prometheus's text format, version 0.0.4."""
    text = generate_latest(_Named()).decode()
    # The library ends each counter's name in `_total`; TensorFlow Serving's has no such end.
    return re.sub(r"^(# \S+ )?(:tensorflow:serving:request_count)_total\b", r"\1\2", text, flags=re.M).encode()


class _Named:
    """The registry without the moments at which series began, which TensorFlow Serving does not give."""

    def collect(self) -> Iterator:
        for metric in _REGISTRY.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
