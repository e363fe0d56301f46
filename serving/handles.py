"""Questions to a running app's deployments through their handles, asked from a process of their own.

Who has a handle has a thread that polls Serve's controller, and Ray ends a process whose threads call on it after
`ray.shutdown`: our commands outlive Ray, a Ray task does not.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from pydantic import JsonValue
from ray import serve
from ray.serve.context import _get_global_client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from registry.contract import Encoded
from serving.messages import Held

MODEL, INGRESS = "Model", "Ingress"
ANSWER_S = 30.0
REPLICAS_S = 20.0
"""What all replicas together are given to say what they have loaded."""
START_S = 30.0
"""What the task's process is given to start."""


def about(app: str) -> dict[str, JsonValue]:
    """What an ingress says of itself."""
    said: dict[str, JsonValue] = _elsewhere(_about, app, at_most_s=ANSWER_S)
    return said


def loaded(app: str) -> dict[str, Held]:
    """Replica id -> what it answers with; every running replica has answered, or the time was up."""
    said: dict[str, Held] = _elsewhere(_loaded, app, at_most_s=REPLICAS_S + ANSWER_S)
    return said


def scores(app: str, wanted: Held, encoded: Sequence[Encoded], texts_per_call: int) -> list[Mapping[str, float] | None]:
    """Scores of each text, None where the model failed on it."""
    said: list[Mapping[str, float] | None] = _elsewhere(
        _scores, app, wanted, encoded, texts_per_call, at_most_s=2 * ANSWER_S
    )
    return said


def close(app: str, at_most_s: float) -> int:
    """Have every ingress take no more requests and answer those it has; how many it had to leave."""
    left: int = _elsewhere(_close, app, at_most_s, at_most_s=at_most_s)
    return left


@dataclass(frozen=True, slots=True)
class Process:
    """Where a replica runs."""

    node: str
    pid: int


def processes(app: str, deployment: str) -> dict[str, Process]:
    """Replica id -> process, of the running replicas of a deployment of this app."""
    found = _get_global_client().get_serve_details()["applications"][app]["deployments"][deployment]["replicas"]
    return {one["replica_id"]: Process(one["node_id"], one["pid"]) for one in found if one["state"] == "RUNNING"}


def kill(process: Process) -> None:
    """SIGKILL it, on whichever machine of Ray's it runs."""
    _elsewhere(_kill, process.pid, at_most_s=ANSWER_S, node=process.node)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def task(question: Callable[..., Any], node: str | None = None) -> Any:
    """A Ray task that costs no CPU in Ray's books and is not tried again; on `node`, when one is named."""
    there = NodeAffinitySchedulingStrategy(node, soft=False) if node else "DEFAULT"
    return ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(question)


def _elsewhere(question: Callable[..., Any], *given: Any, at_most_s: float, node: str | None = None) -> Any:
    """Raises RayError when it is not answered."""
    return ray.get(task(question, node).remote(*given), timeout=START_S + at_most_s)


def _handle(deployment: str, app: str) -> Any:
    """A handle for a process that has no event loop, whatever Serve's variables say of those that have one."""
    handle = serve.get_deployment_handle(deployment, app)
    if not handle.is_initialized:
        handle._init(_run_router_in_separate_loop=True)
    return handle


def _close(app: str, at_most_s: float) -> int:
    return sum(_handle(INGRESS, app).broadcast("close").results(timeout_s=at_most_s))


def _about(app: str) -> Any:
    return _handle(INGRESS, app).about.remote().result(timeout_s=ANSWER_S)


def _loaded(app: str) -> dict[str, Held]:
    handle, found = _handle(MODEL, app), dict[str, Held]()
    until = time.monotonic() + REPLICAS_S
    while len(found) < _replicas(app) and time.monotonic() < until:
        # The handle chooses among the idle ones, so several are asked at once.
        for response in [handle.canary.remote() for _ in range(4)]:
            alive = response.result(timeout_s=ANSWER_S)
            found[alive.replica] = alive.held
    return found


def _replicas(app: str) -> int:
    return int(serve.status().applications[app].deployments[MODEL].replica_states.get("RUNNING", 0))


def _scores(app: str, wanted: Held, encoded: Sequence[Encoded], size: int) -> list[Mapping[str, float] | None]:
    handle = _handle(MODEL, app)
    calls = [handle.score.remote(wanted, encoded[start : start + size]) for start in range(0, len(encoded), size)]
    scored = [one for call in calls for one in call.result(timeout_s=ANSWER_S)]
    return [one.prediction.scores if one.prediction else None for one in scored]
