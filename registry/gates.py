"""Evidence -> verdicts: every gate, in the order of the report. A new gate is one function and one entry here."""

from collections.abc import Callable

from registry import model_gates, pace_gates, service_gates, strain_gates
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
    "shutdown": strain_gates.shutdown,
}
"""On what the running app shows."""


def judge(seen: Evidence, limits: GateParams) -> tuple[Verdict, ...]:
    """Every gate's verdict; none looks at another's."""
    about_model = [gate(seen, limits) for gate in MODEL_GATES.values()]
    return (*about_model, *(gate(seen, limits) for gate in SERVICE_GATES.values()))
