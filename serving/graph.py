"""The graph digest: how a version is served, as one name. Needs no ray.serve."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from registry.closure import import_closure
from registry.files import dump_json, sha256
from serving.engine import device_kind
from serving.front import PLACES, planned
from serving.params import ServeParams

LIBRARIES = ("ray", "torch", "transformers", "tokenizers", "onnxruntime")
# Serve itself gives every replica its own name in these; nobody chose them.
INJECTED = "RAY_SERVE_INTERNAL_"


def graph_digest(params: ServeParams, environment: Mapping[str, str] | None = None) -> str:
    """`sha256:<hex>` over the params, our serving code and page, Serve's variables, libraries, device kind.

    Which runtime answers follows from the params (`serve.precision`), the device kind and the bundle, whose digest says
    what it keeps. The same in the driver and in Serve's processes. Host, port, route prefix and the machine's CPUs are
    not in it.
    `environment`: of the processes that serve; None: as a Serve would have it that this command starts.
    """
    root = Path(__file__).resolve().parents[1]
    environment = planned() if environment is None else environment
    pages = [path.relative_to(root).as_posix() for path in (root / "serving/page").rglob("*") if path.is_file()]
    graph = {
        "params": params.model_dump(mode="json"),
        "files": {name: sha256(root / name) for name in sorted({*import_closure(root, "serving.app"), *pages})},
        "environment": {
            name: value
            for name, value in environment.items()
            if name.startswith("RAY_SERVE_") and not name.startswith(INJECTED) and name not in PLACES
        },
        "libraries": {name: version(name) for name in LIBRARIES},
        "device": device_kind(params),
    }
    return "sha256:" + hashlib.sha256(dump_json(graph).encode()).hexdigest()
