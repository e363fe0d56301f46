"""Evidence -> verdicts: every gate, in the order of the report. A new gate is one function and one entry here."""

from collections.abc import Callable

from registry import model_gates, service_gates
from registry.evidence import Evidence
from registry.gate_params import GateParams
from registry.report import Verdict

Gate = Callable[[Evidence, GateParams], Verdict]

GATES: tuple[Gate, ...] = (
    model_gates.quality,
    model_gates.champion,
    model_gates.slices,
    model_gates.calibration,
    service_gates.identity,
    service_gates.contract,
    service_gates.parity,
    service_gates.batching,
    service_gates.latency,
    service_gates.throughput,
    service_gates.shutdown,
)


def judge(seen: Evidence, limits: GateParams) -> tuple[Verdict, ...]:
    """Every gate's verdict; none looks at another's."""
    return tuple(gate(seen, limits) for gate in GATES)
