"""`/health` is held against what clients got in the same seconds."""

import pytest

from serving.load import Answer
from serving.truth import untrue
from serving.watch import Look


def answers(*spans: tuple[float, float, str]) -> list[Answer]:
    """Ten answers a second between each pair of times, each after a tenth of a second."""
    return [
        Answer(0, began, began + 0.1, status)
        for start, end, status in spans
        for began in (start + 0.1 * turn for turn in range(round((end - start) * 10)))
    ]


def look(at: float, status: str) -> list[Look]:
    """One quick look."""
    return [Look(at, at + 0.01, status)]


STEADY = answers((0, 30, "200"))
DOWN = answers((0, 10, "200"), (10, 20, "503"), (20, 30, "200"))


@pytest.mark.parametrize(
    ("seen", "at", "status", "claims"),
    [
        (STEADY, 15, "200", 0),
        (STEADY, 15, "503", 1),
        (STEADY, 15, "ReadTimeout", 1),
        (DOWN, 18, "200", 1),
        (DOWN, 18, "503", 0),
        # While it may lag, either is true.
        (DOWN, 12, "200", 0),
        (DOWN, 22, "503", 0),
        (DOWN, 29, "503", 1),
        # Refusals are answers of a healthy service.
        (answers((0, 30, "200"), (0, 30, "429")), 15, "503", 1),
        # Before anything is known of the past.
        (STEADY, 3, "503", 0),
    ],
)
def test_a_look_is_untrue_only_against_what_clients_saw(
    seen: list[Answer], at: float, status: str, claims: int
) -> None:
    assert len(untrue(look(at, status), seen)) == claims


def test_ok_is_untrue_while_everybody_waits() -> None:
    waiting = [*answers((0, 10, "200")), *(Answer(0, 10.0, 40.0, "200") for _ in range(8))]
    (claim,) = untrue(look(20, "200"), waiting)
    assert "8 requests went without an answer" in claim
    assert untrue(look(20, "503"), waiting) == []


def test_a_longer_lag_is_granted_where_the_rule_says_so() -> None:
    assert untrue(look(18, "200"), DOWN, lag_s=15) == []
