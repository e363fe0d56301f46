"""Free ports for what starts and ends with one command."""

import random
import socket

PORTS = range(20_000, 30_000)
"""Below the ports that systems hand out to whoever asks (32,768 and up), above those of Ray's workers (to 19,999)."""


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as taken:
        # Connections that are closing do not count, a listener does.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str) -> int:
    """A port that is free, and that neither the system nor Ray gives away while the app starts."""
    return next(port for port in random.sample(PORTS, len(PORTS)) if is_free(host, port))
