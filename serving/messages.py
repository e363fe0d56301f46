"""What travels between the ingress and a replica: plain data, no framework, no torch."""

from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from registry.contract import Prediction


class Held(NamedTuple):
    """What a replica answers with. During a rolling update an ingress meets replicas that hold something else."""

    digest: str
    """Of the bundle."""
    runtime: str


@dataclass(frozen=True, slots=True)
class Scored:
    """One text's way through a replica."""

    prediction: Prediction | None
    """None: this text alone made the model fail."""
    replica: str
    forward_ms: float
    batch_texts: int
    """Texts handed to the scorer together with this one; it forwards those of like length together."""
    padding: float
    """Share of padding among the tokens of those forwards."""


@dataclass(frozen=True, slots=True)
class Alive:
    """A replica's answer to a canary."""

    fault: str | None
    """What was wrong with the answer, or None."""
    loaded: dict[str, JsonValue]
    """What the replica says of itself, computed from the bytes it loaded: digest, runtime, precision, device, …"""
    replica: str = ""
    """Its id."""
    hangs: bool = False
    """Its model has a batch that does not end: it answers no texts, and others may."""

    @property
    def held(self) -> Held:
        """What it answers with."""
        return Held(str(self.loaded["digest"]), str(self.loaded["runtime"]))
