"""What evidence is made of."""

from pydantic import BaseModel


class Seen(BaseModel, frozen=True, extra="forbid"):
    """One piece of evidence."""
