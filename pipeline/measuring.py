"""A version served by the real graph, asked, and stopped under load -> evidence about the service."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from pipeline.candidate import Candidate
from pipeline.cluster import RayParams, cluster
from pipeline.params import load
from registry.errors import MachineFault
from registry.evidence import AboutService, Measured
from registry.gate_params import GateParams
from registry.service_evidence import Drill, Faults
from serving import drills, front, resources
from serving.app import API_KEYS, build
from serving.drill import Drills, Fault
from serving.ending import Ending, last_words
from serving.graph import graph_digest
from serving.measure import Inquiry, in_flight, measure
from serving.params import ServeParams
from serving.ports import free_port
from serving.probe import Target
from serving.replica import Load, load_bundle
from serving.running import running

HOST = "127.0.0.1"


class VerifyFault(MachineFault):
    """The app could not be measured; nothing is known about the model."""


def about_service(
    candidate: Candidate, gates: GateParams, inquiry: Inquiry, when_up: Callable[[], None] = lambda: None
) -> AboutService:
    """Everything that the service gates look at.

    `when_up` runs between the app's start and the first question. Raises VerifyFault with Serve's own words when the
    app cannot be measured.
    """
    port = free_port(HOST)
    before = set(psutil.Process().children(recursive=True))
    inquiry.say("starting Ray and the graph")
    with front.raised(), cluster(load("ray", RayParams)):
        try:
            measured, drilled, words, ending = _production(candidate, gates, inquiry, port, before, when_up)
            if inquiry.faults:
                drilled |= _planted(candidate, gates, inquiry)
        except MachineFault as fault:
            raise VerifyFault(f"{fault}\n{last_words()}") from fault
    faults = Faults(rounding=candidate.engine.rounding, drills=drilled) if inquiry.faults else None
    return AboutService(**dict(measured), faults=faults, last_words=words, shutdown=ending.seen(HOST, port))


def _production(
    candidate: Candidate,
    gates: GateParams,
    inquiry: Inquiry,
    port: int,
    before: set[psutil.Process],
    when_up: Callable[[], None],
) -> tuple[Measured, dict[str, Drill], str, Ending]:
    """The graph as it would be served: ask it, hurt it where that was asked for, stop it under load."""
    with _app(candidate, candidate.serve, gates, port) as target:
        when_up()
        measured = measure(target, inquiry)
        drilled = (
            _drills(target, gates, inquiry, drills.on_any(target, inquiry.golden.askable(target).texts))
            if inquiry.faults
            else {}
        )
        words = last_words()
        inquiry.say("stopping it under load")
        ending = Ending(target, inquiry.test.askable(target).texts, in_flight(candidate.serve), before)
    ending.app_is_down()
    return measured, drilled, words, ending


def _planted(candidate: Candidate, gates: GateParams, inquiry: Inquiry) -> dict[str, Drill]:
    """The same graph with a model that fails on purpose."""

    def has_room(params: ServeParams) -> bool:
        with contextlib.suppress(resources.TooSmall):
            resources.check(build(candidate.version, params, verified=False))
            return True
        return False

    params, faulty = drills.planted(candidate.version, candidate.serve, has_room)
    inquiry.say("starting the graph again with a model that fails on purpose")
    with _app(candidate, params, gates, free_port(HOST), faulty) as target:
        return _drills(target, gates, inquiry, drills.on_planted(target))


def _drills(target: Target, gates: GateParams, inquiry: Inquiry, faults: Iterator[Fault]) -> dict[str, Drill]:
    held = dict[str, Drill]()
    with Drills(target, inquiry.golden.askable(target), gates.max_recovery_s, inquiry.bound) as under_load:
        for fault in faults:
            inquiry.say(f"under load: {fault.what}")
            held[fault.name] = under_load.hold(fault)
    return held


@contextlib.contextmanager
def _app(
    candidate: Candidate, serve: ServeParams, gates: GateParams, port: int, loader: Load = load_bundle
) -> Iterator[Target]:
    """The app under a name of its own."""
    nonce = secrets.token_hex(8)
    name = f"verify-{nonce}"
    app: Any = build(candidate.version, serve, nonce=nonce, verified=False, constructor_retries=1, load=loader)
    with running(
        app,
        host=HOST,
        port=port,
        name=name,
        route_prefix=f"/{name}",
        timeout_s=gates.deploy_timeout_s,
        request_timeout_s=serve.request_timeout_s,
    ) as url:
        yield Target(
            url=url,
            app=name,
            version=candidate.version,
            contract=candidate.contract,
            params=serve,
            graph_digest=candidate.graph_digest if serve == candidate.serve else graph_digest(serve),
            nonce=nonce,
            engine=candidate.engine,
            headers=_key(),
        )


def _key() -> dict[str, str]:
    """The header that the graph asks for when the environment gives it API keys."""
    keys = [key.strip() for key in os.environ.get(API_KEYS, "").split(",") if key.strip()]
    return {"authorization": f"Bearer {keys[0]}"} if keys else {}
