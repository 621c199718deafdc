"""The child process of the doctor: imports what may not import, computes what may crash, and says how far it came.

    python -P doctor_probe.py FILE imports devices products

Each line of FILE is a JSON object with the key "stage"; it is written as soon as it is known, so that what comes last
before a crash is there. Imports nothing of bert_tf, and needs nothing but Python up to the first import that it tries.
"""

import importlib
import json
import sys
import time

MODULES = ("numpy", "google.protobuf", "h5py", "tensorflow", "keras", "tensorflow_text")
DTYPES = ("float32", "bfloat16", "float16")
_SIZES = {"CPU": 768, "GPU": 4096}  # rows and columns of the matrices: as wide as BERT-base; a GPU is not warm before
_LEAST_SECONDS = 0.2  # of repetition: shorter ones say little
_MOST_REPETITIONS = 200


def main(path, stages):
    """Writes what each stage finds."""
    with open(path, "a", encoding="utf-8") as file:

        def tell(stage, **values):
            file.write(json.dumps({"stage": stage, **values}) + "\n")
            file.flush()

        if all({"imports": try_imports, "devices": list_devices, "products": time_products}[stage](tell)
               for stage in stages):  # fmt: skip
            tell("end")


def try_imports(tell):
    """Imports one module after the other, up to the first that fails."""
    for name in MODULES:
        tell("begin", what=f"import {name}")
        begin = time.perf_counter()
        try:
            module = importlib.import_module(name)
        except BaseException as error:  # whatever it is, it is what the user asked the doctor about
            tell("import", module=name, error=f"{type(error).__name__}: {error}")
            return False
        seconds = round(time.perf_counter() - begin, 2)
        tell("import", module=name, version=getattr(module, "__version__", None), seconds=seconds)
    return True


def list_devices(tell):
    """Tells of the devices that TensorFlow sees, and what it was built for."""
    import keras
    import tensorflow as tf

    tell("begin", what="the list of devices")
    build = tf.sysconfig.get_build_info()
    devices = []
    for device in tf.config.list_physical_devices():
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(map(str, details.get("compute_capability", ())))
        devices.append({"kind": device.device_type, "name": details.get("device_name"), "capability": capability})
    told = {name: build.get(name) for name in ("is_cuda_build", "cuda_version", "cudnn_version")}
    tell("devices", devices=devices, backend=keras.backend.backend(), **told)
    return True


def time_products(tell):
    """Times a product of two square matrices in each precision, on the first GPU where there is one."""
    import tensorflow as tf

    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    size = _SIZES[kind]
    for dtype in DTYPES:
        tell("begin", what=f"a product of matrices in {dtype}")
        with tf.device(f"/{kind}:0"):
            matrix = tf.cast(tf.random.stateless_uniform([size, size], seed=[1, 2]) - 0.5, dtype)
            product = tf.function(lambda x, y: tf.linalg.matmul(x, y))
            product(matrix, matrix).numpy()  # traced, and what is loaded late is loaded
            seconds = min(_repeat(product, matrix) for _ in range(2))
        tell("product", device=kind, dtype=dtype, size=size, gflops=round(2 * size**3 / seconds / 1e9, 1))
    return True


def _repeat(product, matrix):
    """Returns the seconds that one product takes, the mean of as many as fill some time."""
    count, begin = 0, time.perf_counter()
    while count < _MOST_REPETITIONS:
        last = product(matrix, matrix)
        count += 1
        if time.perf_counter() - begin >= _LEAST_SECONDS:
            break
    last.numpy()  # a GPU is only asked so far, and has computed now
    return (time.perf_counter() - begin) / count


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
