"""The protocols that a server's REST port follows in addition to TensorFlow Serving's."""

from collections.abc import Iterable, Sequence

from bert_tf.serving.server import json_responses
from bert_tf.serving.server.protocols.adapter import Protocol
from bert_tf.serving.server.protocols.kserve_v2 import KSERVE_V2
from bert_tf.serving.server.protocols.openai import OPENAI
from bert_tf.serving.server.protocols.rerank import RERANK
from bert_tf.serving.server.protocols.sagemaker import SAGEMAKER
from bert_tf.serving.server.protocols.tei import RERANK_BY_BODY, TEI
from bert_tf.utils.names import PROTOCOLS

_ALL = {each.name: each for each in (OPENAI, RERANK, TEI, KSERVE_V2, SAGEMAKER)}


class EnabledProtocols:
    """Finds the protocol of a path.

    Args:
        names: some of `names.PROTOCOLS`.
        more: further protocols, of which the first with a path answers it.

    Raises:
        ValueError: there is no protocol of a name.
    """

    def __init__(self, names: Sequence[str] = (), more: Iterable[Protocol] = ()):
        if unknown := [name for name in names if name not in PROTOCOLS]:
            raise ValueError(f"`rest_api_protocols` must be some of {', '.join(PROTOCOLS)}; got {unknown[0]!r}.")
        found = {name: _ALL[name] for name in PROTOCOLS if name in names}
        if {RERANK.name, TEI.name} <= set(found):
            found[RERANK.name] = RERANK_BY_BODY
        self._protocols = [*more, *found.values()]

    def find(self, path: str) -> Protocol | None:
        """Returns the protocol that a path belongs to; None for TensorFlow Serving's, and for paths of none."""
        return next((protocol for protocol in self._protocols if protocol.finds(path)), None)

    def write_error(self, path: str, status: int, message: str) -> tuple[int, str]:
        """Returns (HTTP status, JSON) of an error, in the form of the path's protocol."""
        protocol = self.find(path)
        return protocol.write_error(status, message) if protocol else (status, json_responses.error(message))

    def ready_paths(self) -> list[str]:
        """Returns the paths whose GET says whether all models are available."""
        return [path for protocol in self._protocols for path in protocol.ready_paths]

    def live_paths(self) -> list[str]:
        """Returns the paths whose GET says that the server runs."""
        return [path for protocol in self._protocols for path in protocol.live_paths]


NO_PROTOCOLS = EnabledProtocols()
