"""The journal: who was champion when, and why. Kept as tags of the registered model, one entry a tag."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

Action = Literal["promote", "rollback", "regraph"]
PREFIX = "journal."
LONGEST_REASON = 1000
"""Characters; MLflow keeps 5,000 in a tag."""


class Named(BaseModel, frozen=True, extra="forbid"):
    """A version as the journal names it."""

    version: str
    digest: str


class Entry(BaseModel, frozen=True, extra="forbid", populate_by_name=True):
    """One move of the champion. It is written before the alias moves and settled after it."""

    at: str
    """UTC, ISO 8601, seconds."""
    by: str
    action: Action
    """`regraph`: the same champion, verified with another graph."""
    from_: Named | None = Field(alias="from")
    to: Named
    graph_digest: str
    report_sha256: str | None
    """None: moved by force, without a passing report."""
    reason: str = ""
    settled: bool = False

    def __str__(self) -> str:
        """One line for people."""
        before = f" after version {self.from_.version}" if self.from_ else ""
        why = f": {self.reason}" if self.reason else ""
        forced = " by force" if self.report_sha256 is None else ""
        return f"{self.action} of version {self.to.version}{before}{forced} by {self.by} at {self.at}{why}"


def key(number: int) -> str:
    """The tag that holds entry `number`."""
    return f"{PREFIX}{number:06d}"


def read(tags: Mapping[str, str]) -> dict[int, Entry]:
    """Entries by number, oldest first; a tag that somebody wrote by hand and that is no entry is left out."""
    found = {}
    for name in sorted(tags):
        number = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and number.isdecimal():
            try:
                found[int(number)] = Entry.model_validate_json(tags[name])
            except ValidationError:
                continue
    return found


def write(entry: Entry) -> str:
    """The entry as a tag's value."""
    short = entry.model_copy(update={"reason": entry.reason[:LONGEST_REASON]})
    return short.model_dump_json(by_alias=True)


def replaced_by_promotion(entries: Sequence[Entry], digest: str) -> Named | None:
    """Whom the last *promotion* of this digest replaced: the champion it had to beat."""
    promotions = [entry for entry in entries if entry.action == "promote" and entry.to.digest == digest]
    return promotions[-1].from_ if promotions else None


def dethroned(entries: Sequence[Entry], digest: str) -> Entry | None:
    """The entry that last took the title from this digest, if it ever held it."""
    moves = [entry for entry in entries if entry.action != "regraph" and entry.from_ and entry.from_.digest == digest]
    return moves[-1] if moves else None


def latest(entries: Sequence[Entry], digest: str) -> Entry | None:
    """The entry that last made or kept this digest champion."""
    made = [entry for entry in entries if entry.to.digest == digest]
    return made[-1] if made else None


def graph_of(entries: Sequence[Entry], digest: str) -> str | None:
    """The graph digest that this digest was last made or kept champion with."""
    last = latest(entries, digest)
    return last.graph_digest if last else None
