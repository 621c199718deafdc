"""What a device does in a few calls, from TensorFlow's profiler: its largest kernels, launches, and idle time.

A GPU has a plane with a line for each stream; where there is none, the operations of XLA's programs on the CPU are
read, which run side by side in several threads.
"""

import collections
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_LARGEST = 15
_NUMBER = re.compile(r"([._]\d+)+$")  # XLA numbers kernels of one kind


def record(call: Callable, times: int, folder):
    """Returns what the profiler saw of so many calls, an XSpace; a call returns a scalar. `folder` keeps the file."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tf.profiler.experimental.Profile(str(folder)):
        for _ in range(times):
            last = call()
        float(last)  # waits for the device
    (path,) = folder.glob("plugins/profile/*/*.xplane.pb")
    return xplane_pb2.XSpace.FromString(path.read_bytes())


class _Kernel(NamedTuple):
    """A kernel or a copy: its name, picoseconds of its begin and end, and the number of its launch, if there is one."""

    name: str
    begin: int
    end: int
    launch: int | None


def summarize(space, calls: int) -> dict:
    """Returns what the first device of an XSpace did in each of so many calls.

    Returns:
        `device`: the plane's name. `kernels`: kernels and copies per call. `launches`: what the host launched per call,
        a graph of kernels counted once, or None on a CPU. `milliseconds`: of a call, from the first kernel to the last.
        `idle`: the share of that time in which no kernel ran. `largest`: a list [name, kernels per call, microseconds
        per call, share of all kernels' time] of the 15 kinds that took longest.
    """
    device, kernels = _read_kernels(space)
    if not kernels:
        raise ValueError(f"The profile must have kernels of a device; got planes {[p.name for p in space.planes]}.")
    times, counts = collections.Counter(), collections.Counter()
    for kernel in kernels:
        kind = _NUMBER.sub("", kernel.name)[:80]
        times[kind] += kernel.end - kernel.begin
        counts[kind] += 1
    span = max(kernel.end for kernel in kernels) - min(kernel.begin for kernel in kernels)
    launches = len({kernel.launch for kernel in kernels} - {None})
    return {
        "device": device,
        "kernels": len(kernels) / calls,
        "launches": launches / calls if launches else None,
        "milliseconds": span / 1e9 / calls,
        "idle": 1 - _covered(kernels) / span,
        "largest": [
            [kind, counts[kind] / calls, picoseconds / 1e6 / calls, picoseconds / times.total()]
            for kind, picoseconds in times.most_common(_LARGEST)
        ],
    }


def _read_kernels(space) -> tuple[str, list[_Kernel]]:
    """Returns the name of the first GPU's plane, or of the CPU's, and its kernels."""
    for plane in sorted(space.planes, key=lambda plane: plane.name):
        if plane.name.startswith("/device:GPU"):
            # The other lines say again, by program and by operation, what the streams did.
            streams = [line for line in plane.lines if line.name.startswith("Stream")]
            return plane.name, [kernel for line in streams for kernel, _ in _events(plane, line)]
    for plane in space.planes:
        if plane.name == "/host:CPU":
            events = (event for line in plane.lines for event in _events(plane, line))
            return plane.name, [kernel for kernel, statistics in events if "hlo_op" in statistics]
    return "", []


def _events(plane, line) -> Iterator[tuple[_Kernel, dict]]:
    """Yields the events of a line, and the statistics of each by name."""
    for event in line.events:
        begin = 1000 * line.timestamp_ns + event.offset_ps
        statistics = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
        launch = statistics.get("correlation_id")
        launch = launch and (launch.uint64_value or launch.int64_value)
        name = plane.event_metadata[event.metadata_id].name
        yield _Kernel(name, begin, begin + event.duration_ps, launch), statistics


def _covered(kernels) -> int:
    """Returns how long at least one kernel ran."""
    covered, until = 0, 0
    for kernel in sorted(kernels, key=lambda kernel: kernel.begin):
        covered += max(0, kernel.end - max(kernel.begin, until))
        until = max(until, kernel.end)
    return covered
