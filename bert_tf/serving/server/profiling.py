"""ProfilerService: profiles of the server, as TensorBoard and `tf.profiler.experimental.client.trace` request them.

As in TensorFlow Serving, the profile is sent, or saved where the caller asks for it. The latter is only done for
callers on this machine, who share its file system: any other could write files into directories that it cannot reach
itself.
"""

import glob
import os
import tempfile
import threading
import time
from typing import Any

from absl import logging

from bert_tf.serving.errors import denied, invalid, unavailable
from bert_tf.serving.server.request_context import RequestContext
from bert_tf.utils.files import atomic_open
from bert_tf.utils.protobuf_classes import message_classes

SERVICE = "tensorflow.ProfilerService"
_MOST_MS = 60_000  # of a profile, which takes memory all the time
_LOOK_SECONDS = 0.1  # between checks whether the caller still waits
_LOCAL = ("unix:", "ipv4:127.", "ipv6:%5B::1%5D:", "ipv6:[::1]:")  # how gRPC's names of peers on this machine begin
# The published field numbers, from tsl/profiler/protobuf. A message within a message is encoded as bytes are.
_CLASSES = message_classes(
    "bert_tf.serving.profiling",
    {
        "Options": (
            (2, "host_tracer_level", "uint32"),
            (3, "device_tracer_level", "uint32"),
            (4, "python_tracer_level", "uint32"),
            (9, "duration_ms", "uint64"),
        ),
        "ProfileRequest": (
            (4, "opts", "Options"),
            (5, "repository_root", "string"),
            (6, "session_id", "string"),
            (7, "host_name", "string"),
            (9, "emit_xspace", "bool"),
        ),
        "ProfileResponse": ((7, "empty_trace", "bool"), (8, "xspace", "bytes")),
        "Line": ((4, "events", "*bytes"),),
        "Plane": ((3, "lines", "*Line"),),
        "Space": ((1, "planes", "*Plane"),),
    },
)
ProfileRequest, ProfileResponse = _CLASSES["ProfileRequest"], _CLASSES["ProfileResponse"]
_turn = threading.Lock()  # TensorFlow has one profiler per process


def profile(request: Any, call: RequestContext) -> Any:
    """Profiles the server for the time given in a ProfileRequest, and returns the ProfileResponse.

    Raises:
        ServingError: the caller may not have it saved or has left, the time is too long, or another profile is being
            made.
    """
    duration = request.opts.duration_ms
    if not 0 < duration <= _MOST_MS:
        raise invalid(f"A profile may last from 1 to {_MOST_MS} ms; got {duration}")
    target = None if request.emit_xspace else _target(request, call.peer)
    if not _turn.acquire(blocking=False):
        raise unavailable("The server is already being profiled; try again later")
    try:
        data = _record(request.opts, call)
    finally:
        _turn.release()
    if target is not None:
        _save(target, data)
        logging.info("Saved a profile of %d ms for %s: %s", duration, call.peer, target)
    space = _CLASSES["Space"].FromString(data)
    is_empty = not any(line.events for plane in space.planes for line in plane.lines)
    return ProfileResponse(empty_trace=is_empty, xspace=data if target is None else b"")


def _target(request, peer):
    """Returns the path of the requested file."""
    if not peer.startswith(_LOCAL):
        logging.log_every_n_seconds(logging.WARNING, "Rejected saving a profile for %s.", 10, peer)
        raise denied("A profile is saved only for callers on the server's machine; others must set emit_xspace")
    names = request.session_id, request.host_name
    if not os.path.isabs(request.repository_root) or any(
        not name or name != os.path.basename(name) or name.startswith(".") for name in names
    ):
        raise invalid(
            "A profile needs an absolute repository_root, and a session_id and a host_name without directories; got "
            f"{request.repository_root[:200]!r}, {names[0][:200]!r} and {names[1][:200]!r}"
        )
    host = request.host_name.replace(":", "_")  # the host's port; Windows has no colons in file names
    return os.path.join(request.repository_root, request.session_id, f"{host}.xplane.pb")


def _record(options, call):
    """Returns an XSpace as bytes, of what TensorFlow does until the time is over."""
    import tensorflow as tf

    levels = {name: getattr(options, f"{name}_tracer_level") for name in ("host", "device", "python")}
    with tempfile.TemporaryDirectory() as folder:
        settings = tf.profiler.experimental.ProfilerOptions(
            **{f"{name}_tracer_level": level for name, level in levels.items()}
        )
        try:
            tf.profiler.experimental.start(folder, settings)
        except tf.errors.AlreadyExistsError as error:
            raise unavailable("The server's process is already being profiled; try again later") from error
        saves = False
        try:
            end = time.monotonic() + options.duration_ms / 1000
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(left, _LOOK_SECONDS))
                call.check()
            saves = True
        finally:
            tf.profiler.experimental.stop(save=saves)
        (file,) = glob.glob(os.path.join(glob.escape(folder), "plugins", "profile", "*", "*.xplane.pb"))
        with open(file, "rb") as stored:
            return stored.read()


def _save(path, data):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with atomic_open(path, "wb") as file:
            file.write(data)
    except (OSError, ValueError) as error:  # such as a NUL in the path
        raise invalid(f"The profile cannot be saved at {path[:200]}: {error}") from error
