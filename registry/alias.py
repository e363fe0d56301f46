"""The alias `champion`: every move stands in the journal before it is made and is settled after it.

Among processes that share the home's lock a move is exclusive. MLflow has no compare-and-set, so two machines on one
server can still race: both read back, and the one whose move was overwritten is told.
"""

from datetime import UTC, datetime

from registry import describe, journal
from registry.errors import Refused
from registry.journal import Action, Entry
from registry.runs import user
from registry.versions import CHAMPION, Known, Registry

PROMOTE: Action = "promote"
ROLLBACK: Action = "rollback"
REGRAPH: Action = "regraph"


class MovedMeanwhile(Refused):
    """Somebody else moved the champion between our look and our move."""


def settle(registry: Registry) -> None:
    """Finish or undo a move that was killed between its writes."""
    alias = registry.alias()
    for number, entry in registry.moves().items():
        if entry.settled:
            continue
        if entry.to.version == alias:
            _write(registry, number, entry.model_copy(update={"settled": True}))
            print(f"registry: finished what had been interrupted: {entry}", flush=True)
        else:
            registry.client.delete_registered_model_tag(registry.name, journal.key(number))
            print(f"registry: undid what had been interrupted: {entry}", flush=True)


def moved_by_hand(registry: Registry) -> str | None:
    """What to say when the alias is not where the journal left it; None when it is."""
    entries, alias = registry.journal(), registry.alias()
    last = entries[-1].to.version if entries else None
    if alias == last:
        return None
    return (
        f"the alias {CHAMPION} points to version {alias or 'nothing'}, the journal's last move made it "
        f"{last or 'nothing'}: somebody moved it outside of this pipeline"
    )


def move(
    registry: Registry,
    champion: Known | None,
    to: Known,
    action: Action,
    graph_digest: str,
    report_sha256: str | None,
    reason: str,
) -> None:
    """Journal, alias, journal: killed between any two, `settle` finishes or undoes it."""
    entry = Entry.model_validate(
        {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": user(),
            "action": action,
            "from": champion.named if champion else None,
            "to": to.named,
            "graph_digest": graph_digest,
            "report_sha256": report_sha256,
            "reason": reason,
        }
    )
    before = registry.alias()
    number = max(registry.moves(), default=0) + 1
    _write(registry, number, entry)
    if registry.alias() != before or registry.moves().get(number) != entry:
        raise _raced(registry)
    registry.client.set_registered_model_alias(registry.name, CHAMPION, to.version)
    if registry.alias() != to.version or registry.moves().get(number) != entry:
        raise _raced(registry)
    _write(registry, number, entry.model_copy(update={"settled": True}))
    registry.client.update_registered_model(registry.name, describe.model(registry.journal()))


def _write(registry: Registry, number: int, entry: Entry) -> None:
    registry.client.set_registered_model_tag(registry.name, journal.key(number), journal.write(entry))


def _raced(registry: Registry) -> MovedMeanwhile:
    last = registry.journal()[-1:]
    return MovedMeanwhile(f"the champion was moved by somebody else meanwhile ({last[0] if last else '?'}): dvc repro")
