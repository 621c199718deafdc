"""Verify that an exported model reproduces its recorded outputs.

    bert-tf verify models/reviews
    bert-tf verify models/reviews --server=localhost:8500 --model_name=reviews
    bert-tf verify untrusted_model --inspect

Replays the golden requests of the newest version, or of the version whose
directory is given, in this process or on a server, and prints the largest
difference per signature. A SavedModel is a program that runs with your
permissions: --inspect lists what its graph would do without running it. Exits
with status 1 if a signature is missing, an output differs, or an inspected
model has side effects, such as file access.
"""

import dataclasses
import logging
import os
from typing import ClassVar

from bert_tf.cli.tls import tls_of
from bert_tf.serving.client.settings import TlsSettings
from bert_tf.utils.extras import require_packages
from bert_tf.utils.settings import UserSettings, flags_of, option


@dataclasses.dataclass(frozen=True)
class VerifySettings(TlsSettings, UserSettings):
    """Where to verify an export, and the tolerance."""

    GROUP: ClassVar[str] = "Server and requests"

    inspect: bool = option(
        False,
        "List what the model's graph would do, without loading it: operations, files, signatures. Exits with status "
        "1 if it has side effects, such as file access.",
        group="What to do",
        excludes=("server", "model_name", "timeout", "tolerance", *(flag.name for flag in flags_of(TlsSettings))),
    )
    server: str | None = option(
        None,
        "gRPC address, host:port, of a server that serves the model. Default: load the model in this process.",
    )
    model_name: str = option("default", "Name of the model on the server.")
    timeout: float = option(60.0, "Request timeout in seconds.", low=0)
    tolerance: float | None = option(
        None,
        "Allowed difference of a number, relative for values above 1. Default: 1e-4, or 0.02 if the weights are "
        "bfloat16, 0.005 if float16, 0.1 if int8.",
        low=0, group="Evaluation",
    )


SETTINGS = VerifySettings
FLAGS = flags_of(SETTINGS)
TAKES_TEXTS = True
_OF_SERVER = {flag.name for flag in FLAGS} - {"inspect", "server", "tolerance"}


def main(settings: VerifySettings, paths):
    """Prints the table of signatures.

    Raises:
        ValueError: there is not one path, a flag has no effect, or the model does not answer as it did.
    """
    _check_flags(settings)
    if settings.inspect:
        _inspect(settings, paths)
        return
    require_packages("`bert-tf verify`", "prometheus_client")  # the server's code runs the model
    from bert_tf.serving.verification import verify

    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it tells of files that it reads
    _check_one(paths)
    how = settings.server, settings.model_name, settings.timeout, settings.tolerance, tls_of(settings)
    verdicts = verify(paths[0], *how)
    print(f"{'signature':<20}{'requests':>10}{'largest difference':>22}")
    for each in verdicts:
        print(f"{each.signature:<20}{each.requests:>10}{each.largest:>22.2g}{'   differs' * bool(each.problems)}")
    problems = [problem for each in verdicts for problem in each.problems]
    if problems:
        raise ValueError(
            f"{paths[0]} does not reproduce its recorded outputs: {len(problems)} of "
            f"{sum(each.requests for each in verdicts)} outputs differ: {'; '.join(problems)}."
        )


def _check_flags(settings):
    if not settings.server and (needless := sorted(settings.given & _OF_SERVER)):
        raise ValueError(
            f"Without --server, the model is loaded by this command, and {', '.join(f'--{name}' for name in needless)} "
            "would have no effect. Add --server, or remove the other flags."
        )


def _check_one(paths):
    if len(paths) != 1:
        raise ValueError(f"Pass one path, that of the export; got {len(paths)}: {' '.join(paths) or 'none'}.")


def _inspect(settings, paths):
    """Prints what a graph would do.

    Raises:
        ValueError: there is not one path, no graph in it, or it has side effects.
    """
    from bert_tf.export.hub.inspection import inspect_model
    from bert_tf.serving.exports import find_export
    from bert_tf.serving.server.version_folders import find_versions

    _check_one(paths)
    path = find_export(paths[0]) if os.path.isdir(paths[0]) and find_versions(paths[0]) else paths[0]
    faults = []
    for where, found in inspect_model(path).items():
        print(where)
        rows = {"signatures": found.signatures, "layers": found.layers, "files": found.files,
                "texts that look like paths": found.paths, "size": found.sizes,
                "may do more than compute": found.faults}  # fmt: skip
        for title, lines in rows.items():
            if lines or title == "may do more than compute":
                print(f"  {title}: {len(lines) or 'none'}")
            for line in lines:
                print(f"    {line}")
        if found.operations:
            print(f"  operations: {', '.join(found.operations)}")
        faults += found.faults
    if faults:
        raise ValueError(
            f"{paths[0]} may do more than compute: {'; '.join(faults[:5])}{'; ...' if faults[5:] else ''}. Use it "
            "only if you trust its source."
        )
