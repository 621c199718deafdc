"""The version and the signature that a REST request names, in TensorFlow Serving's API and in other protocols."""

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.predict import DEFAULT_SIGNATURE, check_method
from bert_tf.serving.server.signatures import Signature

_DIGITS = 19  # of the largest version


def read_version(digits: str) -> int:
    """Returns the version that decimal digits state; raises ServingError if it is larger than any."""
    kept = digits.lstrip("0") or "0"
    if len(kept) > _DIGITS or int(kept) >= 2**63:
        raise invalid(f"Failed to convert version: {digits} to numeric.")
    return int(kept)


def find_signature(version, name: str | None = None) -> Signature:
    """Returns a signature that Predict may run, the default one if `name` is None or "".

    Raises:
        ServingError: the model has no such signature, or it has no inputs.
    """
    signature = version.model.signatures.get(name or DEFAULT_SIGNATURE)
    if signature is None:
        raise invalid(f'Serving signature name: "{name or DEFAULT_SIGNATURE}" not found in signature def')
    check_method(signature)
    if not signature.inputs:
        raise invalid(f"Failed to get input map for signature: {name or 'DEFAULT'}")
    return signature
