"""What type checkers read instead of async_client.py: its methods are awaited, those of the other client are not."""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

import numpy as np

from bert_tf.serving.client.base_client import BaseClient
from bert_tf.serving.client.requests import ModelSignature, VersionStatus
from bert_tf.serving.client.results import Result

_OwnResult = TypeVar("_OwnResult")
_Texts = Mapping[str, Sequence[str] | Sequence[Sequence[str]]]

class AsyncClient(BaseClient, contextlib.AbstractAsyncContextManager[AsyncClient, None]):
    async def predict(
        self, inputs: Mapping[str, np.ndarray | list[Any]], signature: str = "", outputs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]: ...
    @overload
    async def ask(self, inputs: _Texts, typed: Literal[False] = False) -> list[dict[str, Any]]: ...
    @overload
    async def ask(self, inputs: _Texts, typed: Literal[True]) -> list[Result]: ...
    @overload
    async def ask(self, inputs: _Texts, typed: type[_OwnResult]) -> list[_OwnResult]: ...
    @overload
    async def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, typed: Literal[False] = False
    ) -> list[dict[str, Any]]: ...
    @overload
    async def classify(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, *, typed: Literal[True]
    ) -> list[Result]: ...
    async def signatures(self) -> dict[str, ModelSignature]: ...
    async def text_inputs(self, signature: str = "") -> tuple[str, ...]: ...
    async def status(self) -> list[VersionStatus]: ...
    def stream(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        in_flight: int = 64,
        batch_size: int = 1,
        typed: bool | type[Any] = False,
        errors: str = "raise",
    ) -> AsyncIterator[Any]: ...
    async def encode(self, texts: Sequence[str], batch_size: int = 32, in_flight: int = 4) -> np.ndarray: ...
    async def close(self) -> None: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
