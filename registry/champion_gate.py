"""The gate on the model beside the champion: not worse on the same rows, over all and in no slice."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from registry.chance import Interval, macro_f1_difference
from registry.evidence import AboutModel, Champion
from registry.gate_params import GateParams
from registry.report import Outcome, Verdict, again

ALPHA = 0.05
"""Shared out over the slices (Bonferroni), so that many slices do not make a chance finding likelier."""


@dataclass(frozen=True)
class Churn:
    """Rows whose answer users would see change."""

    changed: int
    mended: int
    """Wrong before, right now."""
    broken: int
    """Right before, wrong now."""


def champion(seen: AboutModel, limits: GateParams) -> Verdict:
    """Not worse than the baseline champion on the same test rows, by paired bootstrap intervals."""
    rival = seen.champion
    outcome: Outcome = "pass"
    measured: JsonValue = None
    why = "no champion yet: this would be the first promotion"
    if rival is not None and not rival.truth:
        outcome, why = "not_enough_rows", f"no test row (0) is left to compare on; {_left_out(rival)}"
    if rival is not None and rival.truth:
        outcome, why, measured = _compare(rival, limits)
    return Verdict(
        gate="champion",
        question="Is it at least as good as the champion?",
        outcome=outcome,
        measured=measured,
        limit={"low": -limits.max_drop, "champion": rival.digest if rival else None},
        why=why,
        reproduce=again("champion"),
    )


def _compare(rival: Champion, limits: GateParams) -> tuple[Outcome, str, JsonValue]:
    truth_B, ours_B, theirs_B = _rows(rival)
    found, moved = macro_f1_difference(truth_B, ours_B, theirs_B), churn(rival)
    by_slice = slice_differences(rival, limits.min_support)
    outcome, why = _no_worse(rival, found, limits.max_drop)
    # A slice has few rows: it fails only where it is surely worse, not where it might be.
    worse = [name for name, one in by_slice.items() if one.high < -limits.max_drop]
    faults = [
        f"in slice {name!r} macro-F1 falls by {-by_slice[name].value:.4f}, surely more than {limits.max_drop}"
        for name in worse
    ]
    measured: JsonValue = {
        "difference": found.value,
        "low": found.low,
        "high": found.high,
        "rows": len(truth_B),
        "slices": {name: {"difference": d.value, "low": d.low, "high": d.high} for name, d in by_slice.items()},
        "churn": {"changed": moved.changed, "mended": moved.mended, "broken": moved.broken},
    }
    answers = f"{moved.changed:,} answers change, {moved.mended:,} to right and {moved.broken:,} to wrong"
    return ("fail" if worse else outcome), "; ".join([why, answers, *faults]), measured


def churn(rival: Champion) -> Churn:
    """How many answers users would see change, and which way."""
    truth_B, ours_B, theirs_B = _rows(rival)
    changed_B = ours_B != theirs_B
    mended, broken = (int((changed_B & (answer_B == truth_B)).sum()) for answer_B in (ours_B, theirs_B))
    return Churn(int(changed_B.sum()), mended, broken)


def slice_differences(rival: Champion, min_support: int) -> dict[str, Interval]:
    """Macro-F1 of ours minus theirs in each slice of so many rows, with intervals that hold for all slices at once."""
    truth_B, ours_B, theirs_B = _rows(rival)
    counts = Counter(name for name in rival.slices if name is not None)
    names = sorted(name for name, rows in counts.items() if rows >= min_support)
    places = {name: np.array([other == name for other in rival.slices]) for name in names}
    return {
        name: macro_f1_difference(truth_B[at], ours_B[at], theirs_B[at], coverage=1 - ALPHA / len(names))
        for name, at in places.items()
    }


def _rows(rival: Champion) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    truth_B, ours_B, theirs_B = (np.array(a, dtype=np.int64) for a in (rival.truth, rival.ours, rival.theirs))
    return truth_B, ours_B, theirs_B


def _no_worse(rival: Champion, found: Interval, max_drop: float) -> tuple[Outcome, str]:
    """The lower end must not fall below -max_drop.

    On few rows that is doubt, not a verdict, unless even the upper end is below: then it is surely worse.
    """
    rows = len(rival.truth)
    why = (
        f"macro-F1 {found.value:+.4f} against {rival.digest[:19]} on {rows:,} rows, "
        f"95 % interval {found.low:+.4f} to {found.high:+.4f}; {_left_out(rival)}"
    )
    if found.low >= -max_drop:
        return "pass", why
    if found.half_width > max_drop and found.high >= -max_drop:
        needed = math.ceil(rows * (found.half_width / max(max_drop, 1e-4)) ** 2)
        return "not_enough_rows", f"{why}; to tell a drop of {max_drop} from chance takes about {needed:,} test rows"
    return "fail", f"{why}; the champion stays: improve the model, or accept a larger drop (gates.max_drop)"


def _left_out(rival: Champion) -> str:
    if not rival.training_known:
        return f"{rival.left_out:,} rows left out; which rows the champion was trained on is not recorded"
    return f"{rival.left_out:,} rows left out that it was trained on or whose label one of the two does not know"
