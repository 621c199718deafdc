"""What type checkers read instead of base_client.py: each client has the methods in its own stub, as one is awaited."""

from collections.abc import Iterable

from bert_tf.serving.client.channel import Retry, Tls

class BaseClient:
    server: str
    model_name: str
    def __init__(
        self,
        server: str,
        model_name: str = "default",
        timeout: float = 10.0,
        version: int | None = None,
        *,
        label: str | None = None,
        tls: Tls | None = None,
        metadata: Iterable[tuple[str, str]] = (),
        retry: Retry | None = None,
        max_response_bytes: int = ...,
    ) -> None: ...
