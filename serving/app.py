"""The graph: Ingress -> DeploymentHandle -> Replica. Production, verification and tests all call `build`."""

import math
import os
import subprocess
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from ray import serve

from registry.bundle import VersionRef
from registry.errors import Refused
from serving.edge import digest_of_key
from serving.graph import device_kind
from serving.ingress import Ingress
from serving.params import ServeParams
from serving.replica import Batching, Load, Replica, load_bundle

API_KEYS = "SERVE_API_KEYS"
# Room beside the window of user texts, so that a canary is placed at once.
CANARY_ROOM = 8
# Far above admission: the ingress itself says 429, in our shape.
INGRESS_ROOM = 4
HEALTH_PERIOD_S, HEALTH_TIMEOUT_S = 1.0, 2.0
CONSTRUCTOR_RETRIES = 3


class ApiKeysError(Refused):
    """SERVE_API_KEYS is set and holds no key."""


def build(
    version: VersionRef,
    params: ServeParams,
    *,
    nonce: str = "",
    verified: bool,
    constructor_retries: int = CONSTRUCTOR_RETRIES,
    load: Load = load_bundle,
) -> Any:
    """The Serve application of one version. Never refuses a version; `load` stands in for the bundle in tests."""
    model = serve.deployment(Replica, name="Model").options(**model_options(params, constructor_retries))
    ingress = serve.deployment(serve.ingress()(Ingress), name="Ingress").options(
        num_replicas=params.ingress_replicas,
        # HTTP needs no CPU of its own in Ray's books: on two cores the model could not be placed otherwise.
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=INGRESS_ROOM * params.max_queued_texts,
        graceful_shutdown_timeout_s=params.graceful_shutdown_s,
        max_constructor_retry_count=constructor_retries,
    )
    about: dict[str, JsonValue] = {"verified": verified, "deployment": nonce, "build": _build()}
    window = math.ceil(_window(params) / params.ingress_replicas)
    return ingress.bind(
        model.bind(version, device_kind(params), threads(params), params.request_timeout_s, load),
        version,
        params,
        window,
        about,
        _key_digests(),
    )


def model_options(params: ServeParams, constructor_retries: int) -> dict[str, Any]:
    """Options of the model deployment, all of them derived from `params`."""
    scale: dict[str, Any] = {"num_replicas": params.num_replicas}
    if params.autoscaling:
        scale = {
            "autoscaling_config": {
                **params.autoscaling.model_dump(),
                # Serve's default of 2 would add replicas long before one of them fills a batch.
                "target_ongoing_requests": max(1, params.max_batch_size),
            }
        }
    batching = Batching(max_batch_size=params.max_batch_size, batch_wait_s=params.batch_wait_s)
    return {
        **scale,
        "ray_actor_options": {"num_cpus": params.num_cpus, "num_gpus": params.num_gpus},
        "user_config": batching,
        # One replica can hold all that the ingresses let through, so that a request is never left with the router.
        "max_ongoing_requests": _window(params) + CANARY_ROOM * params.ingress_replicas,
        "graceful_shutdown_timeout_s": params.graceful_shutdown_s,
        "health_check_period_s": HEALTH_PERIOD_S,
        "health_check_timeout_s": HEALTH_TIMEOUT_S,
        "max_constructor_retry_count": constructor_retries,
    }


def _window(params: ServeParams) -> int:
    """Texts with the model deployment at a time: one batch in the model and one gathering, for every replica."""
    replicas = params.autoscaling.max_replicas if params.autoscaling else params.num_replicas
    return 2 * params.max_batch_size * replicas


def threads(params: ServeParams) -> int:
    """Threads of one replica: the user's OMP_NUM_THREADS, else the whole CPUs that it was given, at least one.

    Asked here and not in the replica: Ray sets the variable in every worker itself.
    """
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else max(1, math.floor(params.num_cpus))


def _key_digests() -> tuple[str, ...]:
    given = os.environ.get(API_KEYS, "")
    keys = [key.strip() for key in given.split(",") if key.strip()]
    if given and not keys:
        raise ApiKeysError(f"{API_KEYS} is set but holds no key; give keys separated by commas, or unset it.")
    return tuple(digest_of_key(key) for key in keys)


def _build() -> dict[str, JsonValue]:
    return {"git": _commit(), **{name: version_of(name) for name in ("ray", "torch", "transformers")}}


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[1]
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
