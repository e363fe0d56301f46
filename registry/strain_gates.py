"""Gates on what the running graph does under strain: too many texts, and an order to stop in the midst of them."""

import math
from statistics import median

import numpy as np

from registry.evidence import AboutService
from registry.gate_params import GateParams
from registry.report import Verdict, again

REMEDIES = {
    "408": "the queue holds more than is answered within serve.request_timeout_s; lower serve.max_queued_texts",
}


def overload(seen: AboutService, limits: GateParams) -> Verdict:
    """Asked for more than it may queue, it refuses the rest at once, keeps telling its health, and recovers."""
    found = seen.overload
    slowest = float(np.quantile(found.health_s, 0.95)) if found.health_s else math.inf
    after_ms = median(found.after_ms)
    faults = [
        f"{count} requests got {status}: {REMEDIES.get(status, 'only 200 and 429 are right')}"
        for status, count in found.statuses.items()
        if status not in {"200", "429"}
    ]
    if "429" not in found.statuses:
        faults.append("nothing was refused: the limit of the queue (serve.max_queued_texts) is not kept")
    if found.without_retry_after:
        faults.append(f"{found.without_retry_after} refusals do not say Retry-After")
    if set(found.health) != {"200"}:
        faults.append(f"/health answered {found.health}")
    if slowest > limits.max_health_s:
        faults.append(f"/health took up to {slowest:.2f} s, gates.max_health_s is {limits.max_health_s:g}")
    if set(found.after) != {"200"} or after_ms > limits.max_p95_ms:
        faults.append(f"it did not recover: single texts got {found.after} after {after_ms:.0f} ms")
    return Verdict(
        gate="overload",
        question="Does it refuse what is too much, and nothing else?",
        outcome="fail" if faults else "pass",
        measured={
            "statuses": dict(found.statuses),
            "health": dict(found.health),
            "health_p95_s": slowest,
            "after_ms": after_ms,
        },
        limit={"queued_texts": found.limit, "health_s": limits.max_health_s, "after_ms": limits.max_p95_ms},
        why="; ".join(
            [
                f"{found.texts:,} texts at once where {found.limit:,} may queue: {found.statuses.get('200', 0)} lists "
                f"answered, {found.statuses.get('429', 0)} refused; /health within {slowest:.2f} s, a text after it in "
                f"{after_ms:.0f} ms",
                *faults,
            ]
        ),
        reproduce=again("overload"),
    )


def shutdown(seen: AboutService, limits: GateParams) -> Verdict:
    """Told to stop under load, it answers what it had begun, and leaves no process and no port behind."""
    found = seen.shutdown
    faults = [f"{sum(found.lost.values())} requests in flight were lost: {found.lost}"] if found.lost else []
    if found.orphans:
        faults.append(f"processes are left: {', '.join(found.orphans)}")
    if not found.port_free:
        faults.append("its port is still taken")
    if found.seconds > limits.max_shutdown_s:
        faults.append(f"it took longer than gates.max_shutdown_s {limits.max_shutdown_s:g}")
    return Verdict(
        gate="shutdown",
        question="Does it stop cleanly under load?",
        outcome="fail" if faults else "pass",
        measured={
            "in_flight": found.in_flight,
            "finished": found.finished,
            "refused": found.refused,
            "lost": dict(found.lost),
            "seconds": found.seconds,
        },
        limit={"lost": 0, "orphans": 0, "seconds": limits.max_shutdown_s},
        why="; ".join(
            [
                f"{found.finished} of {found.in_flight} requests in flight were answered, {found.refused} refused, "
                f"down after {found.seconds:.1f} s",
                *faults,
            ]
        ),
        reproduce=again("shutdown"),
    )
