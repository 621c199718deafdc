"""TensorFlow as the child found it: does it import, what does it see, how fast is it in each precision?"""

import re
from collections.abc import Iterator
from typing import Any

from bert_tf.cli.doctor_checks.child import Report
from bert_tf.cli.doctor_checks.findings import FAULT, NOTE, OK, Finding
from bert_tf.cli.doctor_checks.machine import AVX_NEEDED
from bert_tf.cli.doctor_checks.packages import pip_install
from bert_tf.utils import processor

TENSORFLOW, TEXT = "tensorflow>=2.21,<2.22", "tensorflow-text>=2.21.1,<2.22"
_WITH_CUDA = pip_install("tensorflow[and-cuda]>=2.21,<2.22")
_AGAIN = pip_install("--force-reinstall", "--no-deps", "{}")
# What an error says -> the remedy; the first that is found in it counts, in any case of letters.
_REMEDIES = (
    (r"no module named '?tensorflow_text", pip_install(TEXT)),
    (r"no module named '?([\w.]+)", None),  # the module itself
    (r"glibc(xx)?_\d", "take a newer system, or a container of one: TensorFlow's wheels need glibc 2.27 or later"),
    (r"descriptors cannot|gencode|protobuf", pip_install("protobuf>=6.31.1,<7")),
    (r"_array_api|numpy\.core\.multiarray|compiled using numpy|numpy\.dtype size", pip_install("numpy>=1.26,<3")),
    (r"tf[_-]keras|legacy.keras|keras 2", "unset TF_USE_LEGACY_KERAS"),
    (r"libcu|libnv|libcudnn", _WITH_CUDA),
)
_DISTRIBUTIONS = {"google.protobuf": "protobuf", "tensorflow_text": TEXT, "tensorflow": TENSORFLOW}
_OF_SIGNALS = {
    "signal SIGILL": AVX_NEEDED,
    "signal SIGKILL": "give the machine or the container more memory, 2 GB at least: Linux ends what takes more",
}
_PAYS = 1.2  # times float32's speed, from which another precision is worth a flag


def examine_imports(report: Report) -> Iterator[Finding]:
    """Yields a finding on what was imported, and one on what was not."""
    lines = report.stage("import")
    good, bad = [line for line in lines if "error" not in line], [line for line in lines if "error" in line]
    for line in bad:
        module, error = line["module"], " ".join(line["error"].split())
        yield Finding(module, FAULT, f"does not import: {error[:500]}", remedy_of(module, error), line)
    if not bad and not any(line["module"] == "tensorflow_text" for line in lines):
        yield _crash(report)
    elif good and not bad:
        versions = {line["module"]: line["version"] for line in good}
        seconds = next(line["seconds"] for line in good if line["module"] == "tensorflow")
        told = f"tensorflow {versions['tensorflow']} in {seconds:.1f} s, tensorflow_text {versions['tensorflow_text']}"
        yield Finding("imports", OK, f"{told}, keras {versions['keras']}", values=versions | {"seconds": seconds})


def remedy_of(module: str, error: str) -> str:
    """Returns what to do about an import that fails.

    Args:
        module: that was imported.
        error: what was raised, as text.
    """
    for pattern, remedy in _REMEDIES:
        if found := re.search(pattern, error.lower()):
            missing = found[1] if remedy is None else None
            return remedy or pip_install(_DISTRIBUTIONS.get(missing, missing.partition(".")[0]))
    if module == "tensorflow_text":  # its libraries are built for one minor version of TensorFlow
        return pip_install(TENSORFLOW, TEXT)
    return _AGAIN.format(_DISTRIBUTIONS.get(module, module))


def _crash(report):
    text = f"{report.last_begun} ended the process: {report.ending or 'too early'}"
    if report.said:
        text += f"; the last it said: {report.said}"
    remedy = _OF_SIGNALS.get(report.ending, pip_install("--force-reinstall", TENSORFLOW, TEXT))
    return Finding("imports", FAULT, text, remedy, {"at": report.last_begun, "ending": report.ending})


def examine_devices(report: Report, card: dict[str, Any] | None, hidden: bool) -> Iterator[Finding]:
    """Yields what TensorFlow sees of GPUs and drivers, and whether Keras computes with it.

    Args:
        report: of the child.
        card: the GPU that the driver knows: {"name", "driver"}; None: there is none.
        hidden: CUDA_VISIBLE_DEVICES hides all GPUs.
    """
    for line in report.stage("devices"):
        if line["backend"] != "tensorflow":
            remedy = 'set KERAS_BACKEND=tensorflow, or "backend": "tensorflow" in ~/.keras/keras.json'
            yield Finding("Keras", FAULT, f"computes with {line['backend']}; bert_tf needs TensorFlow", remedy)
        gpus = [device for device in line["devices"] if device["kind"] == "GPU"]
        yield _cuda(line, card, gpus, hidden)
        names = [device["name"] or device["kind"] for device in line["devices"]]
        yield Finding("devices", OK, ", ".join(names), values={"devices": line["devices"]})


_LEAST_DRIVERS = {12: 525, 13: 580}  # CUDA -> the oldest driver of Linux that runs it


def _cuda(line, card, gpus, hidden):
    version = str(line["cuda_version"] or "")
    values = {"cuda": version, "cudnn": line["cudnn_version"], "driver": card and card["driver"], "gpus": len(gpus)}
    built = f"TensorFlow is built for CUDA {version}" if line["is_cuda_build"] else "TensorFlow is built without CUDA"
    if card is None or gpus or hidden:
        seen = f"driver {card['driver']}" if card else "no NVIDIA driver"
        return Finding("CUDA", OK if gpus else NOTE, f"{built}; {seen}", values=values)
    text, least = f"{card['name']} is there, driver {card['driver']}, but TensorFlow does not see it", 0
    if version.partition(".")[0].isdigit():
        least = _LEAST_DRIVERS.get(int(version.partition(".")[0]), 0)
    if not line["is_cuda_build"] or not card["driver"].partition(".")[0].isdigit():
        return Finding("CUDA", FAULT, f"{text}: {built}", _WITH_CUDA, values)
    if int(card["driver"].partition(".")[0]) < least:
        text += f": {built}, which needs driver {least} or later"
        return Finding("CUDA", FAULT, text, f"install NVIDIA's driver {least} or later", values)
    text += f": {built}, whose libraries are missing or of another version"
    return Finding("CUDA", FAULT, text, _WITH_CUDA, values)


def examine_products(report: Report) -> Iterator[Finding]:
    """Yields how fast a product of matrices is in each precision, and what follows for `precision`."""
    lines = {line["dtype"]: line for line in report.stage("product")}
    for dtype, line in lines.items():
        speed = f"{line['gflops']:,.0f} GFLOP/s" if line["gflops"] >= 1 else f"{line['gflops']} GFLOP/s"
        text = f"{speed}, {line['size']} x {line['size']} on the {line['device']}"
        if dtype != "float32" and lines["float32"]["gflops"]:
            times = line["gflops"] / lines["float32"]["gflops"]
            text += f", {times:.1f} times float32: mixed_{dtype} {_verdict(dtype, line, times)}"
        yield Finding(dtype, OK, text, values=line)
    if report.ending and report.stage("devices"):
        text = f"{report.last_begun} ended the process: {report.ending}; {report.said}"
        yield Finding("products", FAULT, text, pip_install("--force-reinstall", TENSORFLOW), {"ending": report.ending})


def _verdict(dtype, line, times):
    if times >= _PAYS:
        return "is faster here"
    if line["device"] == "CPU" and dtype == "bfloat16" and processor.computes_bfloat16():
        return "should be faster here, which this busy machine did not show"
    return "is not faster here"

