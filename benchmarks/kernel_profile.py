"""What a device does in a few calls, from TensorFlow's profiler: its largest kernels, launches, and idle time.

A GPU has a plane with a line for each stream; where there is none, the operations of XLA's programs on the CPU are
read, which run side by side in several threads.
"""

import collections
import re
from collections.abc import Callable, Iterator

_LARGEST = 15
_LAUNCH = re.compile(r"LaunchKernel|GraphLaunch")  # of CUDA's functions on the host: a kernel, a graph of kernels
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


def summarize(space, calls: int) -> dict:
    """Returns what the first device of an XSpace did in each of so many calls.

    Returns:
        `device`: the plane's name. `kernels`: kernels and copies per call. `launches`: what the host launched per call,
        a graph of kernels counted once, or None where the host's calls were not recorded. `milliseconds`: of a call,
        from the first kernel to the last. `idle`: the share of that time in which no kernel ran. `largest`: a list
        [name, kernels per call, microseconds per call, share of all kernels' time] of the 15 kinds that took longest.
    """
    device, kernels = _kernels(space)
    if not kernels:
        raise ValueError(f"The profile must have kernels of a device; got planes {[p.name for p in space.planes]}.")
    times, counts = collections.Counter(), collections.Counter()
    for name, begin, end in kernels:
        kind = _NUMBER.sub("", name)[:80]
        times[kind] += end - begin
        counts[kind] += 1
    span = max(end for _, _, end in kernels) - min(begin for _, begin, _ in kernels)
    launches = sum(bool(_LAUNCH.search(name)) for name in _host_calls(space))
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


def _kernels(space) -> tuple[str, list[tuple[str, int, int]]]:
    """Returns the name of the first GPU's plane, or of the CPU's, and (name, begin, end) of each kernel."""
    for plane in sorted(space.planes, key=lambda plane: plane.name):
        if plane.name.startswith("/device:GPU"):
            # The other lines say again, by program and by operation, what the streams did.
            streams = [line for line in plane.lines if line.name.startswith("Stream")]
            return plane.name, [event for line in streams for event in _events(plane, line)]
    for plane in space.planes:
        if plane.name == "/host:CPU":
            operations = {each.id for each in plane.stat_metadata.values() if each.name == "hlo_op"}
            found = (_events(plane, line, operations) for line in plane.lines)
            return plane.name, [event for events in found for event in events]
    return "", []


def _events(plane, line, having=frozenset()) -> Iterator[tuple[str, int, int]]:
    """Yields name, begin and end in picoseconds of a line's events, of those alone that have one of the statistics."""
    for event in line.events:
        if not having or any(stat.metadata_id in having for stat in event.stats):
            begin = 1000 * line.timestamp_ns + event.offset_ps
            yield plane.event_metadata[event.metadata_id].name, begin, begin + event.duration_ps


def _host_calls(space) -> Iterator[str]:
    """Yields the name of each function of CUDA that the host called."""
    for plane in space.planes:
        if plane.name == "/host:CUPTI":
            yield from (plane.event_metadata[event.metadata_id].name for line in plane.lines for event in line.events)


def _covered(kernels) -> int:
    """Returns how long at least one kernel ran."""
    covered, until = 0, 0
    for _, begin, end in sorted(kernels, key=lambda kernel: kernel[1]):
        covered += max(0, end - max(begin, until))
        until = max(until, end)
    return covered
