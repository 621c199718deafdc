"""Limits of a request's cost, which are checked before memory is allocated."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from bert_tf.serving.errors import invalid
from bert_tf.serving.server.settings import RequestLimitSettings


@dataclasses.dataclass(frozen=True)
class Limits(RequestLimitSettings):
    """Limits of a request: five settings, each a flag of `bert-tf serve`, and derived ones.

    The derived limits are proportional to the bytes of a request, so one number is enough to allow larger ones.

    Attributes:
        max_nesting: maximum nesting of lists and objects in JSON: Python parses them recursively, and TensorFlow copies
            strings of at most 32 axes.
    """

    max_nesting: ClassVar[int] = 32

    @property
    def max_message_fields(self) -> int:
        """Fields, strings and nested messages in a gRPC message: each is an object, of hundreds of bytes in memory."""
        return self.max_message_bytes // 256

    @property
    def max_message_numbers(self) -> int:
        """Numbers in a gRPC message: small ones take a byte in the message and four or eight in memory."""
        return self.max_message_bytes // 4

    @property
    def max_json_values(self) -> int:
        """Values, lists and objects in a REST body: each is a Python object of up to 64 bytes."""
        return self.max_body_bytes // 64

    @property
    def max_tensor_elements(self) -> int:
        """Elements of one input tensor: BERT takes up to four such inputs, of four bytes per element."""
        return self._largest // 16

    @property
    def max_input_text_bytes(self) -> int:
        """Total bytes of the strings of an input: a quarter of a request, as for any other input."""
        return self._largest // 4

    @property
    def max_text_bytes(self) -> int:
        """Maximum size of one string in bytes; a text is tokenized whole."""
        return self._largest // 16

    @property
    def _largest(self):
        return max(self.max_message_bytes, self.max_body_bytes)

    def check_rows(self, rows: int) -> None:
        """Raises ServingError for a request of too many texts, examples or instances."""
        if rows > self.max_batch_size:
            raise invalid(f"A request may have {self.max_batch_size} rows and has {rows}; send it in parts")

    def check_tokens(self, tokens: int) -> None:
        """Raises ServingError for a request of too many tokens."""
        if tokens > self.max_request_tokens:
            raise invalid(
                f"A request may have {self.max_request_tokens} tokens and has about {tokens}; send it in parts"
            )

    def check_text(self, size: int) -> None:
        """Raises ServingError for a string of too many bytes."""
        if size > self.max_text_bytes:
            raise invalid(f"A text may have {self.max_text_bytes} bytes and one has {size}; shorten it")

    def check_texts(self, sizes: Sequence[int]) -> None:
        """Raises ServingError if one of the strings of an input has too many bytes, or all have together."""
        self.check_text(max(sizes, default=0))
        if sum(sizes) > self.max_input_text_bytes:
            most = self.max_input_text_bytes
            raise invalid(
                f"The texts of an input may have {most} bytes together and have {sum(sizes)}; send them in parts"
            )

    def check_output(self, alias: str, elements: int) -> None:
        """Raises ServingError for an output too large for a message, which is written value by value."""
        if elements > self.max_output_elements:
            most = self.max_output_elements
            raise invalid(f"An output may have {most} elements and {alias} has {elements}; ask for less at a time")


LIMITS = Limits()
