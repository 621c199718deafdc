"""How a server listens and what it allows: the settings of `server.Server`."""

import dataclasses

from bert_tf.serving.limits import Limits

HOST = "127.0.0.1"  # nobody else's machine may ask unless somebody wants that


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of a server, whatever it serves.

    Attributes:
        port: for gRPC; 0 takes any free one.
        rest_api_port: for REST; 0 takes any free one, None has no REST.
        host: address to listen on; "0.0.0.0" for all of this machine's.
        poll_seconds: between two looks for new versions; 0 looks only once.
        grace: seconds that a stop waits for requests.
        limits: what one request may cost.
        ui: whether REST's port has a page to try the models on.
    """

    port: int = 0
    rest_api_port: int | None = 0
    host: str = HOST
    poll_seconds: float = 1.0
    grace: float = 30.0
    limits: Limits = Limits()
    ui: bool = False
