"""Evidence -> verdicts: every gate, in the order of the report. A new gate is one function and one entry here."""

from collections.abc import Callable

from registry import fault_gates, model_gates, pace_gates, service_gates, strain_gates
from registry.champion_gate import champion
from registry.evidence import AboutModel, AboutService, Evidence
from registry.gate_params import GateParams
from registry.report import Verdict

MODEL_GATES: dict[str, Callable[[AboutModel, GateParams], Verdict]] = {
    "quality": model_gates.quality,
    "champion": champion,
    "slices": model_gates.slices,
    "calibration": model_gates.calibration,
}
"""On what `evaluate` wrote down and what the champion answers: no app needed."""

SERVICE_GATES: dict[str, Callable[[AboutService, GateParams], Verdict]] = {
    "behaviour": service_gates.behaviour,
    "identity": service_gates.identity,
    "contract": service_gates.contract,
    "parity": service_gates.parity,
    "batching": pace_gates.batching,
    "latency": pace_gates.latency,
    "throughput": pace_gates.throughput,
    "overload": strain_gates.overload,
    "faults": fault_gates.faults,
    "shutdown": strain_gates.shutdown,
    "memory": fault_gates.memory,
}
"""On what the running app shows."""

FULL = frozenset({"faults", "memory"})
"""Judged with `gates.full`, or when asked for by name: they take minutes."""


def judge(seen: Evidence, limits: GateParams) -> tuple[Verdict, ...]:
    """Every verdict of the set that `limits` asks for; no gate looks at another's."""
    return (*(gate(seen, limits) for gate in MODEL_GATES.values()), *judge_service(seen, limits))


def judge_service(seen: AboutService, limits: GateParams) -> tuple[Verdict, ...]:
    """The verdicts on the running app alone."""
    left_out = FULL - full_set(limits)
    return tuple(gate(seen, limits) for name, gate in SERVICE_GATES.items() if name not in left_out)


def full_set(limits: GateParams) -> frozenset[str]:
    """The gates beyond the default set that `limits` asks for."""
    return FULL if limits.full else frozenset()
