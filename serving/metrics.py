"""What Serve's own metrics do not tell, since it counts calls and not texts: for Prometheus, beside Serve's own.

Ray gives every name the prefix `ray_` and the tags application, deployment and replica.
"""

import ray
from ray.serve.metrics import Counter, Histogram

from serving.messages import Scored

MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
TEXTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75)


class Waits:
    """How long the ingress's requests wait for the model."""

    def __init__(self) -> None:
        self._ms = _histogram("predict_wait_ms", "Milliseconds of a request that were neither tokens nor forward.", MS)

    def __call__(self, ms: float) -> None:
        """One request's."""
        self._ms.observe(ms)


class Forwards:
    """What a replica hands to its scorer."""

    def __init__(self) -> None:
        # Of a histogram Ray adds up the middles of its buckets, so what is to be exact is counted.
        self._all = Counter("predict_texts", description="Texts that the scorer was given.")
        self._texts = _histogram("predict_batch_texts", "Texts that the scorer was given together.", TEXTS)
        self._padding = _histogram("predict_padding_share", "Share of padding among their forwards' tokens.", SHARES)
        self._ms = _histogram("predict_forward_ms", "Milliseconds until all of them were scored.", MS)

    def __call__(self, one: Scored) -> None:
        """Those that went together with this one."""
        self._all.inc(one.batch_texts)
        self._texts.observe(one.batch_texts)
        self._padding.observe(one.padding)
        self._ms.observe(one.forward_ms)


def url() -> str:
    """Where Prometheus finds what the processes on this machine tell; other machines of a cluster have their own."""
    here = ray.get_runtime_context().get_node_id()
    (node,) = (node for node in ray.nodes() if node["NodeID"] == here)
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"


def _histogram(name: str, description: str, boundaries: tuple[float, ...]) -> Histogram:
    return Histogram(name, description=description, boundaries=list(boundaries))
