"""The base of every branch of params.yaml."""

from pydantic import BaseModel


class Branch(BaseModel, frozen=True, extra="forbid", strict=True):
    """A branch of params.yaml: frozen, typed, unknown keys refused."""
