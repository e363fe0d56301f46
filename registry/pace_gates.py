"""Gates on the pace of the running graph: it batches, and is quick for one client and for many."""

from statistics import median

from pydantic import JsonValue

from registry.evidence import AboutService
from registry.gate_params import GateParams
from registry.report import Verdict, again
from registry.service_evidence import Throughput

PEAK_SHARE = 0.5
"""The largest batch must reach this share of max_batch_size."""


def batching(seen: AboutService, limits: GateParams) -> Verdict:
    """Requests that wait together share forwards, and no forward is larger than allowed."""
    found = seen.batching
    sizes = found.texts_by_size
    largest = max(sizes, default=0)
    # Each text reports the size of its forward, so a forward of n texts is reported n times: it counts 1/n each time.
    forwards = sum(texts / size for size, texts in sizes.items())
    mean = sum(sizes.values()) / forwards if forwards else 0.0
    peak = found.max_batch_size * PEAK_SHARE
    faults = []
    if largest > found.max_batch_size:
        faults.append(f"a forward of {largest} texts is above serve.max_batch_size {found.max_batch_size}")
    if found.max_batch_size > 1 and (mean <= limits.min_mean_batch or largest < peak):
        faults.append(
            f"requests hardly share forwards (wanted: mean above {limits.min_mean_batch}, largest at least {peak:g}): "
            "raise serve.batch_wait_s"
        )
    off = "batching is off (serve.max_batch_size: 1); " if found.max_batch_size == 1 else ""
    return Verdict(
        gate="batching",
        question="Do concurrent requests share forwards?",
        outcome="fail" if faults else "pass",
        measured={"mean": mean, "largest": largest, "texts": sum(sizes.values()), "in_flight": found.in_flight},
        limit={"mean_above": limits.min_mean_batch, "largest_at_least": peak, "largest_at_most": found.max_batch_size},
        why=off
        + "; ".join(
            [f"{mean:.2f} texts a forward on average, {largest} at most, {found.in_flight} in flight", *faults]
        ),
        reproduce=again("batching"),
    )


def latency(seen: AboutService, limits: GateParams) -> Verdict:
    """One client waits no longer than the budget; the median of the repeats is judged."""
    found = seen.latency
    p50, p95, p99, raw = map(median, (found.p50_ms, found.p95_ms, found.p99_ms, found.raw_p50_ms))
    over = p95 > limits.max_p95_ms
    spread = f"p95 from {min(found.p95_ms):.0f} to {max(found.p95_ms):.0f} ms in {len(found.p95_ms)} repeats"
    return Verdict(
        gate="latency",
        question="How long does one client wait?",
        outcome="fail" if over else "pass",
        measured={"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "raw_p50_ms": raw, "p95_ms_repeats": list(found.p95_ms)},
        limit=limits.max_p95_ms,
        why=f"p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms for one text at a time, {raw:.0f} ms of it the bare "
        f"model; {spread}"
        + ("; use a smaller base model or more CPUs a replica, or raise gates.max_p95_ms" if over else ""),
        reproduce=again("latency"),
    )


def throughput(seen: AboutService, limits: GateParams) -> Verdict:
    """Under load the graph keeps a fair share of the raw forward's pace, and every text is answered."""
    found = seen.throughput
    served, raw = median(found.served), median(found.raw)
    share = median(s / r for s, r in zip(found.served, found.raw, strict=True))
    wanted = min(limits.min_share_of_raw * raw, limits.enough_texts_per_s)
    failed = {status: count for status, count in found.statuses.items() if status != "200"}
    faults = [f"not every text was answered: {failed}"] if failed else []
    if share < limits.min_share_of_raw and served < limits.enough_texts_per_s:
        faults.append(f"that is below {wanted:.0f} texts/s: look at serve.max_batch_size and serve.batch_wait_s")
    faults += _yardstick_faults(found, limits)
    repeats: JsonValue = {"served": list(found.served), "raw": list(found.raw)}
    return Verdict(
        gate="throughput",
        question="Does it keep pace with the bare model under load?",
        outcome="fail" if faults else "pass",
        measured={
            "texts_per_s": served,
            "raw_texts_per_s": raw,
            "share_of_raw": share,
            "share_of_matmul": median(_shares_of_matmul(found)),
            "repeats": repeats,
        },
        limit={
            "share_of_raw": limits.min_share_of_raw,
            "or_texts_per_s": limits.enough_texts_per_s,
            "share_of_matmul": limits.min_share_of_matmul,
            "overhead_ms": limits.forward_overhead_ms,
        },
        why="; ".join(
            [
                f"{served:.0f} texts/s with {found.in_flight} in flight, {share:.0%} of the {raw:.0f} texts/s of the "
                f"bare model on {found.threads} thread(s) (medians of {len(found.served)} repeats)",
                *faults,
            ]
        ),
        reproduce=again("throughput"),
    )


def _shares_of_matmul(found: Throughput) -> list[float]:
    """Per repeat: operations/s of the raw forward over those of the matmul beside it."""
    timed = zip(found.forward_flops, found.forward_ms, found.matmul_flops_per_s, strict=True)
    return [flops / (ms / 1000) / matmul for flops, ms, matmul in timed]


def _yardstick_faults(found: Throughput, limits: GateParams) -> list[str]:
    """A slow scorer slows its own yardstick, the raw forward; a matmul of the same minute shows that."""
    timed = zip(found.forward_flops, found.matmul_flops_per_s, strict=True)
    allowed_ms = median(f / m / limits.min_share_of_matmul * 1000 for f, m in timed) + limits.forward_overhead_ms
    took_ms = median(found.forward_ms)
    if took_ms <= allowed_ms:
        return []
    return [
        f"the bare model itself takes {took_ms:.0f} ms a forward, where {limits.min_share_of_matmul:.0%} of a plain "
        f"matmul's pace on this machine and {limits.forward_overhead_ms:g} ms would be {allowed_ms:.0f} ms: "
        "look at the versions of torch, onnxruntime and transformers and at what else uses the CPU"
    ]
