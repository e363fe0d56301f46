"""The journal's entries as tags, and the questions asked of it."""

import pytest
from pydantic import ValidationError

from registry import journal
from registry.journal import Entry, Named
from tests.registered import GRAPH, OTHER_GRAPH

A, B = Named(version="1", digest="sha256:a"), Named(version="2", digest="sha256:b")


def entry(action: str, to: Named, before: Named | None = None, **changes: object) -> Entry:
    fields = {"at": "2026-01-01T00:00:00+00:00", "by": "ann", "action": action, "from": before, "to": to}
    return Entry.model_validate({**fields, "graph_digest": GRAPH, "report_sha256": "sha256:r", **changes})


def test_an_entry_survives_its_tag_and_foreign_tags_are_left_out() -> None:
    written = entry("rollback", A, B, reason="complaints", settled=True)
    tags = {journal.key(3): journal.write(written), "journal.000004": "{}", "journal.x": "?", "owner": "ann"}
    assert journal.read(tags) == {3: written}
    assert journal.key(3) == "journal.000003"
    assert '"from":{' in journal.write(written)


def test_a_long_reason_is_cut_to_what_a_tag_can_hold() -> None:
    assert len(journal.write(entry("rollback", A, B, reason="ä" * 90_000))) < 5000


def test_an_entry_reads_as_a_sentence() -> None:
    forced = entry("rollback", A, B, reason="complaints", report_sha256=None)
    assert str(forced) == (
        "rollback of version 1 after version 2 by force by ann at 2026-01-01T00:00:00+00:00: complaints"
    )


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(ValidationError):
        entry("coup", A)


def test_the_baseline_of_a_champion_is_whom_its_last_promotion_replaced_not_its_last_rollback() -> None:
    entries = [entry("promote", A), entry("promote", B, A), entry("rollback", A, B)]
    assert journal.replaced_by_promotion(entries, B.digest) == A
    assert journal.replaced_by_promotion(entries, A.digest) is None
    assert journal.replaced_by_promotion(entries, "sha256:c") is None


def test_the_last_one_to_take_the_title_is_named() -> None:
    entries = [entry("promote", A), entry("promote", B, A), entry("rollback", A, B), entry("regraph", A, A)]
    assert journal.dethroned(entries, B.digest) == entries[2]
    assert journal.dethroned(entries, A.digest) == entries[1]
    assert journal.dethroned(entries, "sha256:c") is None


def test_the_graph_is_the_last_one_a_digest_was_kept_champion_with() -> None:
    entries = [entry("promote", A), entry("regraph", A, A, graph_digest=OTHER_GRAPH)]
    assert journal.graph_of(entries, A.digest) == OTHER_GRAPH
    assert journal.graph_of(entries, B.digest) is None
