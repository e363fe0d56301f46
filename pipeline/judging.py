"""What every verification shares: the registered bundle in a clean process, the report, and what is said meanwhile."""

import contextlib
import json
import os
import platform
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from pipeline import offline
from pipeline.candidate import Candidate
from registry.behaviour import Cases
from registry.evidence import Evidence
from registry.gate_params import GateParams
from registry.reference import Reference
from registry.report import Report, Verdict
from serving.measure import Inquiry, Rows, bare_threads

# For gates and plots only; the report keeps what they say.
ROW_BY_ROW: dict[str, Any] = {
    "last_words": True,
    "offline": {"top_scores"},
    "champion": {"truth", "ours", "theirs", "slices"},
    "latency": {"ms"},
    "batching": {"over_time"},
}


@contextlib.contextmanager
def asking(
    found: Candidate, gates: GateParams, cases: Cases, wanted: Set[str], test: Rows | None = None
) -> Iterator[Inquiry]:
    """What to ask, beside the registered bundle in a clean process; without `test` the load asks the golden rows.

    `wanted`: gates of the full set. Raises BundleError when the bundle does not load there.
    """
    engine = replace(found.engine, threads=bare_threads(found.serve))
    with Reference(found.version, engine) as reference:
        reference.wait_until_loaded()
        texts = offline.golden_texts()
        say(f"asking {len(texts)} golden rows of the registered bundle in a clean process")
        golden = Rows(texts, reference.alone(texts))
        yield Inquiry(
            reference=reference,
            golden=golden,
            test=test or golden,
            cases=cases,
            bound=max(gates.max_batch_bound, engine.rounding),
            say=say,
            memory="memory" in wanted,
            faults="faults" in wanted,
        )


def report_on(
    found: Candidate, gates: GateParams, seen: Evidence, verdicts: tuple[Verdict, ...], took_s: float
) -> Report:
    """The report on what was seen; Serve's last words are in it when a gate fails."""
    machine: dict[str, JsonValue] = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
    }
    evidence = json.loads(seen.model_dump_json(exclude=ROW_BY_ROW))
    if any(verdict.outcome == "fail" for verdict in verdicts):
        evidence["last_words"] = seen.last_words
    loaded = sorted(set(seen.identity.loaded.values())) or ["none"]
    return Report(
        name=found.version.name,
        digest=found.version.digest,
        loaded_digest=", ".join(loaded),
        answered_digest=seen.identity.health["digest"],
        graph_digest=found.graph_digest,
        baseline_digest=found.baseline.digest if found.baseline else None,
        verdicts=verdicts,
        evidence={**evidence, "machine": machine, "gates": "full" if gates.full else "default"},
    )


def introduce(found: Candidate) -> None:
    """Say what is verified."""
    say(f"version {found.version.version} of {found.version.name}, {found.version.digest}, in {found.graph_digest}")


def show(verdicts: Sequence[Verdict]) -> None:
    """Say every verdict, a line each."""
    for verdict in verdicts:
        print(f"verify: {verdict.outcome:<15} {verdict.gate:<11} {verdict.why}", flush=True)


def say(what: str) -> None:
    """Say what is going on."""
    print(f"verify: {what}", flush=True)
