"""Gates of the full set: what the graph does when something breaks, and whether its memory stays level."""

from statistics import median
from typing import TypeVar

from registry.errors import MachineFault
from registry.evidence import AboutService
from registry.gate_params import GateParams
from registry.report import Verdict, again
from registry.service_evidence import Drill, Memory, Resident

MB = 2**20
NOISE = 8 * MB
"""What an allocator takes and gives back by itself."""


Part = TypeVar("Part")


class NotMeasured(MachineFault):
    """A gate of the full set was asked for, and its evidence was not."""


def _measured(part: Part | None) -> Part:
    if part is None:
        raise NotMeasured("this gate belongs to the full set; set gates.full: true, or name it with --only")
    return part


def faults(seen: AboutService, limits: GateParams) -> Verdict:
    """Each fault costs what its rule allows and no more, `/health` tells the truth about it, and it passes."""
    found = _measured(seen.faults)
    drills, bound = found.drills, max(limits.max_batch_bound, found.rounding)
    wrong = [f"{name}: {fault}" for name, drill in drills.items() for fault in _drill_faults(drill, limits, bound)]
    slowest = max(drills, key=lambda name: drills[name].recovery_s)
    looks = sum(drill.looks for drill in drills.values())
    return Verdict(
        gate="faults",
        question="Does it live through what breaks?",
        outcome="fail" if wrong else "pass",
        measured={
            name: {
                "statuses": dict(drill.statuses),
                "recovery_s": drill.recovery_s,
                "slowest_s": drill.slowest_s,
                "untrue": drill.untrue,
                "looks": drill.looks,
            }
            for name, drill in drills.items()
        },
        limit={"recovery_s": limits.max_recovery_s, "untrue": 0, "labels_differ": 0}
        | {f"{name}, lost": drill.may_lose for name, drill in drills.items()},
        why="; ".join(wrong)
        or f"{len(drills)} faults under load, nothing lost beyond each one's rule; the longest, {slowest}, was over "
        f"after {drills[slowest].recovery_s:.1f} s; /health told the truth all {looks:,} times",
        reproduce=again("faults"),
    )


def _drill_faults(drill: Drill, limits: GateParams, bound: float) -> list[str]:
    found = []
    if sum(drill.lost.values()) > drill.may_lose:
        found.append(f"requests got {drill.lost}, the rule is: {drill.rule}")
    if not drill.recovered:
        found.append(f"it had not recovered after gates.max_recovery_s {limits.max_recovery_s:g}")
    elif drill.recovery_s > limits.max_recovery_s:
        found.append(f"it took {drill.recovery_s:.1f} s, gates.max_recovery_s is {limits.max_recovery_s:g}")
    if drill.untrue:
        found.append(f"/health lied {drill.untrue} of {drill.looks} times, first: {drill.untrue_examples[0]}")
    if drill.after.labels_differ or drill.after.worst > bound:
        found.append(
            f"afterwards {drill.after.labels_differ} of {drill.after.answers} golden rows got another label, scores "
            f"moved by up to {drill.after.worst:.1e}"
        )
    return found


def memory(seen: AboutService, limits: GateParams) -> Verdict:
    """Under steady load every process keeps to the memory that it has."""
    found = _measured(seen.memory)
    grown = {name: _growth(resident) for name, resident in found.processes.items()}
    faults = [
        f"{name} grew by {above / MB:.0f} MB on {level / MB:.0f} MB, {_a_text(above, found)} bytes a text: "
        "look for what is kept from request to request"
        for name, (level, above) in grown.items()
        if above > max(limits.max_memory_growth * level, NOISE)
    ]
    worst = max(grown, key=lambda name: grown[name][1] / grown[name][0])
    level, above = grown[worst]
    return Verdict(
        gate="memory",
        question="Does its memory stay level?",
        outcome="fail" if faults else "pass",
        measured={name: {"level_mb": level / MB, "growth_mb": above / MB} for name, (level, above) in grown.items()},
        limit={"growth": limits.max_memory_growth, "or_mb": NOISE / MB},
        why="; ".join(faults)
        or f"{len(grown)} processes over {found.texts:,} texts in {found.seconds:.0f} s; the one that moved "
        f"most, {worst}, went from {level / MB:.0f} MB by {above / MB:+.1f} MB",
        reproduce=again("memory"),
    )


def _growth(resident: Resident) -> tuple[float, float]:
    """Bytes in the middle third of the time, and how much more there were in the last; medians."""
    sizes = [size for _, size in resident.over_time]
    third = len(sizes) // 3
    middle, last = float(median(sizes[third : 2 * third])), float(median(sizes[2 * third :]))
    return middle, last - middle


def _a_text(above: float, found: Memory) -> str:
    """Growth between the middles of two thirds of the time, shared among the texts of a third."""
    return f"{above / max(1, found.texts / 3):,.0f}"
