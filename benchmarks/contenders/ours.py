"""Our graph as production builds it, or with a model that does nothing: the floor of the framework's own cost."""

import argparse
import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.cluster import RayParams, cluster
from pipeline.params import load
from registry.bundle import VersionRef
from registry.contract import Encoded, FloatArray
from registry.runtimes import Engine
from registry.scorer import Scorer
from serving import front
from serving.app import build
from serving.params import ServeParams
from serving.replica import load_bundle
from serving.running import running


def empty(folder: Path, digest: str, engine: Engine) -> Scorer:
    """A loader whose scorer answers the canaries and nothing else with work."""
    scorer = load_bundle(folder, digest, engine)
    real, canaries = scorer.forward, {canary.token_ids for canary in scorer.contract.canaries}
    nothing = np.zeros((512, len(scorer.contract.labels)), dtype=np.float32)

    def forward(encoded: Sequence[Encoded]) -> FloatArray:
        return real(encoded) if encoded[0].ids in canaries and len(encoded) == 1 else nothing[: len(encoded)]

    scorer.forward = forward
    return scorer


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="a version as JSON")
    parser.add_argument("port", type=int)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--replicas", type=int)
    given = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    # 64 clients with 32 texts each must be let in.
    params = load("serve", ServeParams)
    replicas = given.replicas or params.num_replicas
    set_here = {"max_queued_texts": 4096, "precision": given.precision, "num_replicas": replicas}
    params = params.model_copy(update=set_here)
    version = VersionRef(**json.loads(given.version))
    app = build(version, params, verified=False, load=empty if given.empty else load_bundle)
    with front.raised(), cluster(RayParams()), running(app, host="127.0.0.1", port=given.port, request_timeout_s=60.0):
        stop.wait()


if __name__ == "__main__":
    main()
