"""benchmarks/kernel_profile.py reads largest kernels, launches and idle time from what TensorFlow's profiler writes."""

import pytest

from tests.conftest import ROOT

# Two calls of 20 microseconds each; two streams that run side by side for 2 of them, and 12 without work. The second
# and third kernel are of one graph.
GPU = {
    "Stream #1(Compute)": [
        ("gemm_1", 0, 10, {"correlation_id": 7}),
        ("gemm_2.5", 14, 20, {"correlation_id": 8}),
        ("gemm_1", 26, 34, {"correlation_id": 8}),
    ],
    "Stream #2(MemcpyD2D)": [
        ("loop_add", 8, 12, {"correlation_id": 9, "hlo_op": 1}),
        ("loop_add", 38, 40, {"correlation_id": 10}),
    ],
    "XLA Modules": [("program", 0, 40, {"correlation_id": 11})],
}
CPU = {
    "python": [("Executor::Process", 0, 90, {}), ("dot.1", 0, 30, {"hlo_op": 1}), ("end: dot.1", 30, 30, {})],
    "Eigen": [("dot.2", 30, 40, {"hlo_op": 1}), ("loop_add", 10, 20, {"program_id": 1})],
}


@pytest.fixture
def kernel_profile(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import kernel_profile

    return kernel_profile


def _space(planes):
    """Returns an XSpace of {plane: {line: [(event, begin and end in microseconds, its statistics)]}}."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    for name, lines in planes.items():
        plane, ids = space.planes.add(name=name), {}
        for start, (title, events) in enumerate(lines.items()):
            line = plane.lines.add(name=title, timestamp_ns=1000 * start)  # its events count from there
            for event, begin, end, statistics in events:
                key = ids.setdefault(event, len(ids) + 1)
                plane.event_metadata[key].name = event
                offset, duration = 1_000_000 * (begin - start), 1_000_000 * (end - begin)
                added = line.events.add(metadata_id=key, offset_ps=offset, duration_ps=duration)
                for statistic, value in statistics.items():
                    key = ids.setdefault(statistic, len(ids) + 1)
                    plane.stat_metadata[key].name = statistic
                    added.stats.add(metadata_id=key, uint64_value=value)
    return space


def test_the_first_gpu_counts_and_its_streams_alone(kernel_profile):
    other = {"Stream #1": [("elsewhere", 0, 1000, {})]}
    space = _space({"/host:CPU": CPU, "/device:GPU:1": other, "/device:GPU:0": GPU})
    found = kernel_profile.summarize(space, 2)
    assert found.pop("largest") == [
        ["gemm", 1.5, 12.0, pytest.approx(24 / 30)],
        ["loop_add", 1.0, 3.0, pytest.approx(6 / 30)],
    ]
    assert found.pop("idle") == pytest.approx(12 / 40)
    assert found == {"device": "/device:GPU:0", "kernels": 2.5, "launches": 2.0, "milliseconds": 0.02}


def test_only_the_largest_are_named(kernel_profile):
    events = [(f"kernel{n}{'x' * 100}", 100 * n, 100 * n + 50 - n, {}) for n in range(20)]
    largest = kernel_profile.summarize(_space({"/device:GPU:0": {"Stream #1": events}}), 1)["largest"]
    assert [each[0][:8] for each in largest] == [f"kernel{n}{'x' * 100}"[:8] for n in range(15)]
    assert {len(each[0]) for each in largest} == {80}


def test_without_a_gpu_the_operations_of_programs_on_the_cpu_are_read(kernel_profile):
    found = kernel_profile.summarize(_space({"/host:CPU": CPU}), 1)
    assert found["largest"] == [["dot", 2.0, 40.0, 1.0]]
    assert (found["device"], found["launches"], found["idle"]) == ("/host:CPU", None, 0)


def test_a_profile_without_kernels_is_refused(kernel_profile):
    with pytest.raises(ValueError, match=r"must have kernels of a device; got planes \['/host:metadata'\]"):
        kernel_profile.summarize(_space({"/host:metadata": {}}), 1)


def test_what_is_recorded_can_be_read(kernel_profile, tmp_path):
    import tensorflow as tf

    call = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, x)), jit_compile=True)
    matrix = tf.ones([64, 64])
    float(call(matrix))
    found = kernel_profile.summarize(kernel_profile.record(lambda: call(matrix), 3, tmp_path), 3)
    assert found["kernels"] >= 1 and 0 <= found["idle"] < 1 and found["milliseconds"] > 0
    assert sum(share for *_, share in found["largest"]) == pytest.approx(1)
