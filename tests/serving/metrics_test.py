"""Prometheus's page: TensorFlow Serving's names, labels and buckets."""

import re

from bert_tf.serving.server import metrics
from tests.serving.metrics_page import grown, samples


def test_requests_count_under_tensorflow_serving_s_names():
    before = samples()
    metrics.observe_request('a "b"\n', "Predict", "REST", "OK", 0.0125)
    assert grown(before, ":tensorflow:serving:request_count", model_name='a "b"\n', status="OK") == 1
    labels = {"model_name": 'a "b"\n', "API": "Predict", "entrypoint": "REST"}
    assert grown(before, ":tensorflow:serving:request_latency_sum", **labels) == 12500
    edges = [float(dict(labels)["le"]) for (name, labels) in samples() if name.endswith("request_latency_bucket")
             and dict(labels)["model_name"] == 'a "b"\n']  # fmt: skip
    assert len(edges) == 34 and sorted(edges)[:2] == [10, 18] and max(edges) == float("inf")


def test_figures_of_graphs_warm_ups_and_batches():
    before = samples()
    metrics.RUNTIME_LATENCY.labels("m", "Predict", "TF1").observe(1000)
    metrics.WARMUP_LATENCY.labels("m", "OK").observe(1000)
    metrics.QUEUING_LATENCY.labels("m").observe(1000)
    metrics.BATCH_SIZE.labels("m").observe(5)
    metrics.PADDING.labels("m").observe(100)
    metrics.QUEUE_LENGTH.labels("m").set(7)
    serving = ":tensorflow:serving:"
    assert grown(before, f"{serving}runtime_latency_sum", model_name="m", API="Predict", runtime="TF1") == 1000
    assert grown(before, f"{serving}model_warmup_latency_sum", model_path="m", status="OK") == 1000
    assert grown(before, f"{serving}batching_session:queuing_latency_count", model_name="m") == 1
    assert grown(before, f"{serving}batching_session:processed_batch_size_sum", model_name="m") == 5
    assert grown(before, f"{serving}batching_session:padding_size_sum", model_name="m") == 100
    assert samples()[(":bert_tf:serving:queue_length", frozenset({("model_name", "m")}))] == 7


def test_no_line_is_of_the_library_s_own():
    metrics.observe_request("m", "Predict", "GRPC", "OK", 0.1)
    names = re.findall(r"^(?:# TYPE )?(:\S+?)[{ ]", metrics.prometheus_text().decode(), re.M)
    of_theirs = [name for name in names if name.startswith(":tensorflow")]
    assert of_theirs and not [name for name in of_theirs if name.endswith("_total")]
    assert not [name for name in names if name.endswith("_created")]
