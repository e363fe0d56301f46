"""Stage 8: the registered version, served by the real graph, measured and judged. Writes nothing to the registry."""

import contextlib
import json
import os
import platform
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
from pydantic import JsonValue

from pipeline import offline, paths, stage
from pipeline.cluster import RayParams, cluster
from pipeline.offline import Answered
from pipeline.params import load
from registry import bundle, report_html
from registry.bundle import VersionRef
from registry.contract import Contract
from registry.errors import MachineFault, Refused
from registry.evidence import Champion, Evidence, Measured
from registry.files import read_json, write_json, write_text
from registry.gate_params import GateParams
from registry.gates import judge
from registry.params import RegistryParams
from registry.reference import Reference
from registry.report import Report
from registry.versions import Registry, open_registry
from serving.app import API_KEYS, build
from serving.ending import Ending, free_port, last_words
from serving.graph import device_kind, graph_digest
from serving.measure import RUNTIME_NAME, Rows, bare_threads, in_flight, measure
from serving.params import ServeParams
from serving.probe import Target
from serving.running import running

HOST = "127.0.0.1"
# For gates and plots only; the report keeps what they say.
ROW_BY_ROW = {"offline": {"top_scores"}, "champion": {"truth", "ours", "theirs"}}


class StaleVersion(Refused):
    """version.json is not about what stands here or in the registry."""


class VerifyFault(MachineFault):
    """The app could not be measured; nothing is known about the model."""


@dataclass(frozen=True)
class Candidate:
    """What is verified: a version, in a graph, against the champion that it would replace."""

    version: VersionRef
    contract: Contract
    serve: ServeParams
    graph_digest: str
    baseline: VersionRef | None
    registry: Registry


def main() -> None:
    """Measure, judge, write the report, passing or failing. What cannot be measured leaves the old report."""
    began = time.monotonic()
    gates = load("gates", GateParams)
    candidate = _candidate()
    labels = candidate.contract.labels
    rows, golden = offline.answered(labels), offline.golden_texts()
    facts = offline.offline(labels, RUNTIME_NAME, rows)
    port = free_port(HOST)
    with _reference(candidate) as reference, _answers_of(candidate.baseline, rows) as theirs:
        measured, ending = _measure(candidate, gates, port, reference, rows, golden, theirs)
        champion = _against(candidate, rows, theirs)
    seen = Evidence(offline=facts, champion=champion, shutdown=ending.seen(HOST, port), **dict(measured))
    report = _report(candidate, gates, seen, time.monotonic() - began)
    write_text(paths.REPORT_HTML, report_html.render(report, seen))
    write_json(paths.REPORT, report.model_dump(mode="json"))
    _print(report)


def _candidate() -> Candidate:
    """Raises StaleVersion when version.json is not about what stands here, BundleError on changed bytes."""
    given, serve = read_json(paths.VERSION), load("serve", ServeParams)
    graph = graph_digest(serve)
    if graph != given["graph_digest"]:
        raise StaleVersion(f"{paths.VERSION} is about graph {given['graph_digest']}, here is {graph}; run dvc repro.")
    registry = open_registry(paths.ROOT, load("registry", RegistryParams))
    version = _find(registry, given["digest"])
    baseline = _find(registry, given["baseline_digest"]) if given["baseline_digest"] else None
    _say(f"version {version.version} of {version.name}, {version.digest}, in graph {graph}")
    return Candidate(version, bundle.read_contract(version.folder), serve, graph, baseline, registry)


def _find(registry: Registry, digest: str) -> VersionRef:
    found = registry.find(digest)
    if found is None:
        raise StaleVersion(f"the registry {registry.home.shown} does not hold {digest}; run dvc repro register.")
    return found


@contextlib.contextmanager
def _reference(candidate: Candidate) -> Iterator[Reference]:
    """The registered bundle in a clean process. Raises BundleError when it does not load there."""
    serve = candidate.serve
    with Reference(candidate.version, device_kind(serve), bare_threads(serve)) as reference:
        reference.wait_until_loaded()
        yield reference


@contextlib.contextmanager
def _answers_of(baseline: VersionRef | None, rows: Answered) -> Iterator["Future[list[str]] | None"]:
    """The champion's labels of the test rows, computed in a process of its own while Ray and the app start."""
    if baseline is None:
        yield None
        return
    with ThreadPoolExecutor(1) as pool, Reference(baseline, "cpu", os.cpu_count() or 1) as rival:
        yield pool.submit(rival.labels, rows.texts)


def _measure(
    candidate: Candidate,
    gates: GateParams,
    port: int,
    reference: Reference,
    rows: Answered,
    golden: list[str],
    theirs: "Future[list[str]] | None",
) -> tuple[Measured, Ending]:
    """Serve it, ask it, stop it under load. Raises MachineFault with Serve's own words when that cannot be done."""
    nonce, serve = secrets.token_hex(8), candidate.serve
    name = f"verify-{nonce}"
    app = build(candidate.version, serve, nonce=nonce, verified=False, constructor_retries=1)
    before = set(psutil.Process().children(recursive=True))
    _say("starting Ray and the graph")
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
                if theirs:
                    _say("waiting for the champion's answers to the test rows")
                    theirs.result()
                test = Rows(rows.texts, rows.answers)
                measured = measure(target, reference, golden, test, gates.max_batch_bound, _say)
                _say("stopping it under load")
                ending = Ending(target, test.askable(target).texts, in_flight(serve), before)
            ending.app_is_down()
        except MachineFault as fault:
            raise VerifyFault(f"{fault}\n{last_words()}") from fault
    return measured, ending


def _key() -> dict[str, str]:
    """The header that the graph asks for when the environment gives it API keys."""
    keys = [key.strip() for key in os.environ.get(API_KEYS, "").split(",") if key.strip()]
    return {"authorization": f"Bearer {keys[0]}"} if keys else {}


def _against(candidate: Candidate, rows: Answered, theirs: "Future[list[str]] | None") -> Champion | None:
    if candidate.baseline is None or theirs is None:
        return None
    its_labels = bundle.read_contract(candidate.baseline.folder).labels
    settings = candidate.registry.settings(candidate.baseline.digest)
    labels = candidate.contract.labels
    return offline.against(candidate.baseline.digest, its_labels, theirs.result(), settings, labels, rows)


def _report(candidate: Candidate, gates: GateParams, seen: Evidence, took_s: float) -> Report:
    machine: dict[str, JsonValue] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
    }
    evidence = json.loads(seen.model_dump_json(exclude=ROW_BY_ROW))
    loaded = sorted(set(seen.identity.loaded.values())) or ["none"]
    return Report(
        name=candidate.version.name,
        digest=candidate.version.digest,
        loaded_digest=", ".join(loaded),
        answered_digest=seen.identity.health["digest"],
        graph_digest=candidate.graph_digest,
        baseline_digest=candidate.baseline.digest if candidate.baseline else None,
        verdicts=judge(seen, gates),
        evidence={**evidence, "machine": machine, "gates": "default"},
    )


def _print(report: Report) -> None:
    for verdict in report.verdicts:
        print(f"verify: {verdict.outcome:<15} {verdict.gate:<11} {verdict.why}", flush=True)
    took_s = report.evidence["machine"]["took_s"]  # type: ignore[index,call-overload]
    failed = ", ".join(verdict.gate for verdict in report.failures)
    _say(f"{'failed: ' + failed if failed else 'passed'} after {took_s} s; the report: {paths.REPORT_HTML}")


def _say(what: str) -> None:
    print(f"verify: {what}", flush=True)


if __name__ == "__main__":
    stage.run("verify", main)
