"""The graph: Ingress -> DeploymentHandle -> Replica. Production, verification and tests all call `build`."""

import os
import secrets
import subprocess
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from ray import serve

from registry.bundle import VersionRef
from registry.errors import Refused
from serving import sizes
from serving.choosing import ServedVersion, choose
from serving.edge import digest_of_key
from serving.engine import engine_of
from serving.ingress import Ingress
from serving.params import ServeParams
from serving.replica import Batching, Load, Replica, load_bundle
from serving.resources import room_beside

ROOT = Path(__file__).resolve().parents[1]
API_KEYS = "SERVE_API_KEYS"
HEALTH_PERIOD_S, HEALTH_TIMEOUT_S = 1.0, 2.0
CONSTRUCTOR_RETRIES = 3
# How often a stopping replica looks whether it is idle; Serve's 2 s would make every stop as long.
SHUTDOWN_LOOK_S = 0.2
# Serve's proxy logs every request; a line for every hop and every canary beside that says nothing more.
LOGGING = {"enable_access_log": False}


class ApiKeysError(Refused):
    """SERVE_API_KEYS is set and holds no key."""


def champion(args: ServedVersion) -> Any:
    """The application of a verified version, for `serve run` and `serve deploy`. Raises what `choose` raises."""
    chosen = choose(args, os.environ)
    nonce, surge = secrets.token_hex(8), room_beside(args.serve)
    return build(chosen.version, args.serve, nonce=nonce, verified=chosen.verified, surge=surge)


def build(
    version: VersionRef,
    params: ServeParams,
    *,
    nonce: str = "",
    verified: bool,
    constructor_retries: int = CONSTRUCTOR_RETRIES,
    surge: bool = False,
    load: Load = load_bundle,
) -> Any:
    """The Serve application of one version. Never refuses a version; raises NotKept for a precision that it lacks.

    `surge`: an update starts the new replicas before it stops the old; without room for both it would never end.
    `load` stands in for the bundle in tests.
    """
    options = model_options(params, constructor_retries) | ({"max_surge_percent": 100.0} if surge else {})
    model = serve.deployment(Replica, name="Model").options(**options)
    ingress = serve.deployment(serve.ingress()(Ingress), name="Ingress").options(
        num_replicas=params.ingress_replicas,
        # HTTP needs no CPU of its own in Ray's books: on two cores the model could not be placed otherwise.
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=sizes.ingress_max_ongoing_requests(params),
        graceful_shutdown_timeout_s=params.graceful_shutdown_s,
        graceful_shutdown_wait_loop_s=SHUTDOWN_LOOK_S,
        logging_config=LOGGING,
        max_constructor_retry_count=constructor_retries,
    )
    about: dict[str, JsonValue] = {"verified": verified, "deployment": nonce, "build": _build()}
    return ingress.bind(
        model.bind(version, engine_of(version.folder, params), params.request_timeout_s, load),
        version,
        params,
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
                "target_ongoing_requests": sizes.target_ongoing_requests(params),
            }
        }
    batching = Batching(calls_per_batch=sizes.calls_per_batch(params))
    return {
        **scale,
        "ray_actor_options": {"num_cpus": params.num_cpus, "num_gpus": params.num_gpus},
        "user_config": batching,
        "max_ongoing_requests": sizes.max_ongoing_requests(params),
        "graceful_shutdown_timeout_s": params.graceful_shutdown_s,
        "graceful_shutdown_wait_loop_s": SHUTDOWN_LOOK_S,
        "logging_config": LOGGING,
        "health_check_period_s": HEALTH_PERIOD_S,
        "health_check_timeout_s": HEALTH_TIMEOUT_S,
        "max_constructor_retry_count": constructor_retries,
    }


def _key_digests() -> tuple[str, ...]:
    given = os.environ.get(API_KEYS, "")
    keys = [key.strip() for key in given.split(",") if key.strip()]
    if given and not keys:
        raise ApiKeysError(f"{API_KEYS} is set but holds no key; give keys separated by commas, or unset it.")
    return tuple(digest_of_key(key) for key in keys)


def _build() -> dict[str, JsonValue]:
    return {"git": _commit(), **{name: version_of(name) for name in ("ray", "torch", "transformers", "onnxruntime")}}


def _commit() -> str | None:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
