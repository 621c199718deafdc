"""Free TCP ports of this machine."""

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Returns different TCP ports of 127.0.0.1 that were free a moment ago; another program may take them meanwhile."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
