"""What one request may cost. Each limit is checked before anything of that size is made."""

import dataclasses

_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a request; each is a flag of `bert-tf serve` under the same name.

    Attributes:
        max_message_bytes: of a gRPC message.
        max_body_bytes: of a REST body as it is sent.
        max_inflated_bytes: of a REST body once it is unpacked.
        max_nesting: of lists and objects in JSON.
        max_tensor_elements: of one input tensor.
        max_batch_size: rows of a request: texts, examples or instances.
        max_text_bytes: of one string.
    """

    max_message_bytes: int = 64 * _MIB
    max_body_bytes: int = 64 * _MIB
    max_inflated_bytes: int = 64 * _MIB
    max_nesting: int = 32
    max_tensor_elements: int = 4 * 2**20
    max_batch_size: int = 4096
    max_text_bytes: int = 4 * _MIB
