"""What one request may cost. Each limit is checked before anything of that size is made."""

import dataclasses
from collections.abc import Sequence

from bert_tf.serving.errors import invalid

_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a request; each is a flag of `bert-tf serve` under the same name.

    Attributes:
        max_message_bytes: of a gRPC message.
        max_message_fields: fields, strings and nested messages in a gRPC message.
        max_body_bytes: of a REST body as it is sent.
        max_inflated_bytes: of a REST body once it is unpacked.
        max_nesting: of lists and objects in JSON.
        max_json_values: values, lists and objects in a REST body.
        max_tensor_elements: of one input tensor.
        max_batch_size: texts, examples or instances of a request, on whichever axes they stand.
        max_text_bytes: of one string.
        max_input_text_bytes: of all strings of an input together.
        max_request_tokens: of a request; of texts, a token for every four bytes, as far as the model reads them.
        max_output_elements: of one output tensor; one with more is not sent.
    """

    max_message_bytes: int = 64 * _MIB
    max_message_fields: int = 2**18
    max_body_bytes: int = 64 * _MIB
    max_inflated_bytes: int = 64 * _MIB
    max_nesting: int = 32
    max_json_values: int = 2**20
    max_tensor_elements: int = 4 * 2**20
    max_batch_size: int = 4096
    max_text_bytes: int = 4 * _MIB
    max_input_text_bytes: int = 16 * _MIB
    max_request_tokens: int = 3 * 2**16
    max_output_elements: int = 2**24

    def check_rows(self, rows: int):
        """Raises ServingError for a request of too many texts, examples or instances."""
        if rows > self.max_batch_size:
            raise invalid(f"A request may have {self.max_batch_size} rows and has {rows}; send it in parts")

    def check_tokens(self, tokens: int):
        """Raises ServingError for a request of too many tokens."""
        if tokens > self.max_request_tokens:
            raise invalid(
                f"A request may have {self.max_request_tokens} tokens and has some {tokens}; send it in parts"
            )

    def check_text(self, size: int):
        """Raises ServingError for a string of too many bytes."""
        if size > self.max_text_bytes:
            raise invalid(f"A text may have {self.max_text_bytes} bytes and one has {size}; shorten it")

    def check_texts(self, sizes: Sequence[int]):
        """Raises ServingError where one of the strings of an input has too many bytes, or all have together."""
        self.check_text(max(sizes, default=0))
        if sum(sizes) > self.max_input_text_bytes:
            most = self.max_input_text_bytes
            raise invalid(
                f"The texts of an input may have {most} bytes together and have {sum(sizes)}; send them in parts"
            )

    def check_output(self, alias: str, elements: int):
        """Raises ServingError for an output that would be too large a message: it is written value by value."""
        if elements > self.max_output_elements:
            most = self.max_output_elements
            raise invalid(f"An output may have {most} elements and {alias} has {elements}; ask for less at a time")


LIMITS = Limits()

