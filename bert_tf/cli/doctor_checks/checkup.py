"""The whole examination, in the order in which one thing explains the next."""

from collections.abc import Iterator, Mapping

from bert_tf.cli.doctor_checks import child, machine, packages, tensorflow, variables
from bert_tf.cli.doctor_checks.findings import Finding


def examine(environment: Mapping[str, str], patience: float = child.PATIENCE) -> Iterator[Finding]:
    """Yields what is found; what is quick comes first.

    TensorFlow is imported in a child and not here, so that it may be missing, or crash.

    Args:
        environment: os.environ; the child is given it.
        patience: seconds until the child must have ended.
    """
    yield packages.examine_python()
    yield from packages.examine()
    yield from variables.examine(environment)
    yield from machine.examine()
    yield from _of_tensorflow(child.ask(patience=patience, environment=environment), environment)


def _of_tensorflow(report, environment):
    yield from tensorflow.examine_imports(report)
    hidden = environment.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    yield from tensorflow.examine_devices(report, machine.graphics_card(), hidden)
    yield from tensorflow.examine_products(report)
