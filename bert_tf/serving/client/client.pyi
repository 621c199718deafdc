"""What type checkers read instead of client.py: its methods are not awaited, those of the asynchronous client are."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

import numpy as np

from bert_tf.serving.client.base_client import BaseClient
from bert_tf.serving.client.requests import ModelSignature, VersionStatus
from bert_tf.serving.client.results import Result

_OwnResult = TypeVar("_OwnResult")
_Texts = Mapping[str, Sequence[str] | Sequence[Sequence[str]]]

class Client(BaseClient, contextlib.AbstractContextManager[Client, None]):
    def predict(
        self, inputs: Mapping[str, np.ndarray | list[Any]], signature: str = "", outputs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]: ...
    @overload
    def ask(self, inputs: _Texts, typed: Literal[False] = False) -> list[dict[str, Any]]: ...
    @overload
    def ask(self, inputs: _Texts, typed: Literal[True]) -> list[Result]: ...
    @overload
    def ask(self, inputs: _Texts, typed: type[_OwnResult]) -> list[_OwnResult]: ...
    @overload
    def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, typed: Literal[False] = False
    ) -> list[dict[str, Any]]: ...
    @overload
    def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, *, typed: Literal[True]
    ) -> list[Result]: ...
    def signatures(self) -> dict[str, ModelSignature]: ...
    def text_inputs(self, signature: str = "") -> tuple[str, ...]: ...
    def status(self) -> list[VersionStatus]: ...
    def stream(
        self,
        items: Iterable[Any],
        in_flight: int = 64,
        batch_size: int = 1,
        typed: bool | type[Any] = False,
        errors: str = "raise",
    ) -> Iterator[Any]: ...
    def encode(self, texts: Sequence[str], batch_size: int = 32, in_flight: int = 4) -> np.ndarray: ...
    def close(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
