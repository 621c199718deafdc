"""An environment in which TensorFlow is a few lines of our own, and breaks as it is told to."""

import os

import numpy

# Just enough for `cli/doctor_probe.py`.
TENSORFLOW = """
import contextlib, types
__version__ = "2.21.0"
Device = types.SimpleNamespace
_devices = [Device(device_type="CPU", name="/physical_device:CPU:0"){more_devices}]
_details = {{"device_name": "H100", "compute_capability": (9, 0)}}
config = types.SimpleNamespace(
    list_physical_devices=lambda kind=None: [d for d in _devices if kind in (None, d.device_type)],
    experimental=types.SimpleNamespace(get_device_details=lambda d: _details if d.device_type == "GPU" else {{}}),
)
sysconfig = types.SimpleNamespace(get_build_info=lambda: {{
    "is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}})
class Tensor:
    def __sub__(self, other):
        return self
    def numpy(self):
        return 0
random = types.SimpleNamespace(stateless_uniform=lambda shape, seed: Tensor())
def cast(x, dtype):
    {cast}
    return x
linalg = types.SimpleNamespace(matmul=lambda x, y: x)
function = lambda f: f
device = lambda name: contextlib.nullcontext()
"""
KERAS = """
import types
__version__ = "3.15.1"
backend = types.SimpleNamespace(backend=lambda: "{backend}")
"""


def environment(folder, modules=None, backend="tensorflow", more_devices="", cast="pass", **variables):
    """Writes the modules below `folder` and returns the environment variables with which Python finds them first.

    Args:
        folder: an empty one.
        modules: {name: source} of modules that are otherwise than a sound environment's.
        backend: of Keras.
        more_devices: source of further devices, such as ', Device(device_type="GPU", name="")'.
        cast: a line of source that the first product runs.
        variables: further environment variables.
    """
    sound = {
        "google.protobuf": '__version__ = "6.33.6"',
        "h5py": '__version__ = "3.14.0"',
        "tensorflow": TENSORFLOW.format(more_devices=more_devices, cast=cast),
        "keras": KERAS.format(backend=backend),
        "tensorflow_text": '__version__ = "2.21.1"',
    }
    for name, source in (sound | (modules or {})).items():
        place = folder.joinpath(*name.split("."))
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(source, encoding="utf-8")
    (folder / "numpy.py").write_text(f"__version__ = {numpy.__version__!r}")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    return {**kept, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1", **variables}


