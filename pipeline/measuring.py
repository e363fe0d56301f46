"""A version served by the real graph, asked, and stopped under load -> evidence about the service."""

import os
import secrets
from collections.abc import Callable, Sequence

import psutil

from pipeline.candidate import Candidate
from pipeline.cluster import RayParams, cluster
from pipeline.params import load
from registry.behaviour import Cases
from registry.errors import MachineFault
from registry.evidence import AboutService, Measured
from registry.gate_params import GateParams
from registry.reference import Reference
from serving.app import API_KEYS, build
from serving.ending import Ending, free_port, last_words
from serving.measure import Rows, Say, in_flight, measure
from serving.probe import Target
from serving.running import running

HOST = "127.0.0.1"


class VerifyFault(MachineFault):
    """The app could not be measured; nothing is known about the model."""


def about_service(
    candidate: Candidate,
    gates: GateParams,
    reference: Reference,
    golden: Sequence[str],
    test: Rows,
    cases: Cases,
    say: Say,
    when_up: Callable[[], None] = lambda: None,
) -> AboutService:
    """Everything that the service gates look at. `reference`: the registered bundle in a clean process.

    `when_up` runs between the app's start and the first question. Raises VerifyFault with Serve's own words when the
    app cannot be measured.
    """
    port = free_port(HOST)
    measured, words, ending = _measure(candidate, gates, port, reference, golden, test, cases, say, when_up)
    return AboutService(**dict(measured), last_words=words, shutdown=ending.seen(HOST, port))


def _measure(
    candidate: Candidate,
    gates: GateParams,
    port: int,
    reference: Reference,
    golden: Sequence[str],
    test: Rows,
    cases: Cases,
    say: Say,
    when_up: Callable[[], None],
) -> tuple[Measured, str, Ending]:
    """Serve it, ask it, stop it under load, leave Ray."""
    nonce, serve = secrets.token_hex(8), candidate.serve
    name = f"verify-{nonce}"
    app = build(candidate.version, serve, nonce=nonce, verified=False, constructor_retries=1)
    before = set(psutil.Process().children(recursive=True))
    say("starting Ray and the graph")
    with cluster(load("ray", RayParams)):
        try:
            with running(
                app,
                host=HOST,
                port=port,
                name=name,
                route_prefix=f"/{name}",
                timeout_s=gates.deploy_timeout_s,
                request_timeout_s=serve.request_timeout_s,
            ) as url:
                target = Target(
                    url=url,
                    app=name,
                    version=candidate.version,
                    contract=candidate.contract,
                    params=serve,
                    graph_digest=candidate.graph_digest,
                    nonce=nonce,
                    headers=_key(),
                )
                when_up()
                measured = measure(target, reference, golden, test, cases, gates.max_batch_bound, say)
                words = last_words()
                say("stopping it under load")
                ending = Ending(target, test.askable(target).texts, in_flight(serve), before)
            ending.app_is_down()
        except MachineFault as fault:
            raise VerifyFault(f"{fault}\n{last_words()}") from fault
    return measured, words, ending


def _key() -> dict[str, str]:
    """The header that the graph asks for when the environment gives it API keys."""
    keys = [key.strip() for key in os.environ.get(API_KEYS, "").split(",") if key.strip()]
    return {"authorization": f"Bearer {keys[0]}"} if keys else {}
