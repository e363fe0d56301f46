"""The report: all verdicts on one version, the only thing promotion believes."""

import hashlib
from typing import Literal

from pydantic import BaseModel, JsonValue

from registry.files import dump_json

Outcome = Literal["pass", "fail", "not_enough_rows"]


def again(gate: str) -> str:
    """The command that measures one gate again and writes nothing."""
    return f"python -m pipeline.verify --only {gate}"


class Verdict(BaseModel, frozen=True, extra="forbid"):
    """What one gate says, readable without the code."""

    gate: str
    question: str
    outcome: Outcome
    measured: JsonValue
    """The number, or the numbers by name, that the gate looked at."""
    limit: JsonValue
    why: str
    """One sentence with the numbers in it; on a failure also what to do."""
    reproduce: str
    """The command that measures it again."""


class Report(BaseModel, frozen=True, extra="forbid"):
    """All verdicts on one (bundle digest, graph digest) pair. It binds digests; version numbers are resolved anew."""

    schema_version: Literal[1] = 1
    name: str
    digest: str
    """Bundle digest as registered."""
    loaded_digest: str
    """Bundle digest as the replica computed it from the bytes it loaded."""
    answered_digest: str
    """Bundle digest as answered by `/health`."""
    graph_digest: str
    baseline_digest: str | None
    """The champion that it was compared with; promotion expects to replace exactly this one."""
    verdicts: tuple[Verdict, ...]
    evidence: dict[str, JsonValue]
    """What was measured, for people and plots."""

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts that block promotion; `not_enough_rows` is shown and does not block."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome == "fail")

    @property
    def passed(self) -> bool:
        """Whether some gate judged, none failed, and the three digests of the bundle are one."""
        same = self.digest == self.loaded_digest == self.answered_digest
        return bool(self.verdicts) and not self.failures and same

    @property
    def measured_at(self) -> str:
        """UTC, ISO 8601; empty where that was not written down."""
        machine = self.evidence.get("machine")
        return str(machine.get("measured_at", "")) if isinstance(machine, dict) else ""

    @property
    def sha256(self) -> str:
        """`sha256:<hex>` of the report as stable JSON."""
        return "sha256:" + hashlib.sha256(dump_json(self.model_dump(mode="json")).encode()).hexdigest()
