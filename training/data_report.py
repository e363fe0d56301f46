"""What the counts say: refuse, warn, report."""

from collections.abc import Iterator, Mapping
from math import ceil, sqrt
from typing import Any

from registry.errors import Refused
from training.keys import SPLITS
from training.params import DataParams
from training.tally import Tally, natural

MIN_CLASS_ROWS = 10
FEW_CLASS_ROWS = 5
"""Rows of a class in one split below which we warn."""
MAX_NAMED = 10
"""Classes, slices or faults named in one message."""
MAX_SLICES = 100
"""Slices in the report's table, largest first; more is most likely an id column."""
SHARE_SIGMAS = 4.0
"""A hash puts a class's share of a split within so many standard deviations, but for 1 in 16,000."""
CLASS_REMEDY = (
    f"Every class needs at least {MIN_CLASS_ROWS} rows, and one in each of {', '.join(SPLITS)}. Add rows of it, merge "
    "it with another, or take it out; where only the split is unlucky, another data.seed may do. If these are no "
    "classes at all, data.label_column names the wrong column, or data.rating_thresholds is missing."
)
LOOKS_MISSING = frozenset({"na", "n/a", "nan", "nil", "none", "null", "-", "?"})


class DataRefused(Refused):
    """The rows cannot be trained on; says which, why, and what to do."""


def judge(tally: Tally) -> None:
    """Raise DataRefused unless every class can be trained on and measured."""
    if tally.faults:
        raise DataRefused(_faults(tally.faults))
    read, classes = sum(tally.read.values()), tally.classes
    if not classes:
        drops = ", ".join(f"{rows:,} {reason}" for reason, rows in sorted(tally.dropped.items())) or "none dropped"
        raise DataRefused(f"no row is left to train on: {read:,} read, {drops}; check data.source and its columns")
    if len(classes) == 1:
        raise DataRefused(
            f"needs at least 2 classes, found 1 (`{next(iter(classes))}`); "
            "check data.label_column in params.yaml, or add rows of another class"
        )
    if small := [line for label in sorted(classes) if (line := _too_small(label, classes[label]))]:
        head = f"{len(small)} of {len(classes)} classes cannot be trained on and measured:"
        raise DataRefused("\n  ".join([head, *_first(small)]) + f"\n{CLASS_REMEDY}")


def _faults(faults: Mapping[str, str]) -> str:
    """Where and what, a line each; then what to do, each remedy once."""
    told = [(where, *faults[where].partition("\n")) for where in sorted(faults, key=natural)]
    lines = _first([f"{where}: {what}" for where, what, _, _ in told])
    remedies = dict.fromkeys(remedy for _, _, _, remedy in told if remedy)
    return "\n  ".join(["the data cannot be read without guessing:", *lines]) + "".join(
        f"\n{todo}" for todo in remedies
    )


def _first(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_NAMED
    return lines[:MAX_NAMED] + ([f"and {more:,} more"] if more > 0 else [])


def _too_small(label: str, rows: Mapping[str, int]) -> str | None:
    total = sum(rows.values())
    absent = [split for split in SPLITS if not rows.get(split)]
    if total >= MIN_CLASS_ROWS and not absent:
        return None
    return f"`{label}`: {total} {'row' if total == 1 else 'rows'}" + (
        f", none in {', '.join(absent)}" if absent else ""
    )


def warnings(tally: Tally, params: DataParams) -> list[str]:
    """What a person should know and may live with."""
    return [
        *_few(tally),
        *_odd_names(sorted(tally.classes)),
        *_uneven(tally, params),
        *_conflicting(tally, params),
        *([f"{len(tally.slices):,} slices: is data.slice_column an id?"] if len(tally.slices) > MAX_SLICES else []),
    ]


def _few(tally: Tally) -> Iterator[str]:
    for label, rows in sorted(tally.classes.items()):
        for split in SPLITS:
            if rows.get(split, 0) < FEW_CLASS_ROWS:
                yield f"class `{label}` has only {rows.get(split, 0)} rows in {split}: what is measured on it is vague"


def _odd_names(labels: list[str]) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(" ".join(label.casefold().split()), []).append(label)
    for folded, names in alike.items():
        if len(names) > 1:
            yield f"classes {', '.join(map(repr, names))} differ only in case or blanks: are they one?"
        if folded in LOOKS_MISSING or not folded:
            yield f"class {names[0]!r} looks like a missing value, and is kept as a class"


def _uneven(tally: Tally, params: DataParams) -> Iterator[str]:
    for label, rows in sorted(tally.classes.items()):
        for split, fraction in (("val", params.val_fraction), ("test", params.test_fraction)):
            total = sum(rows.values())
            share, allowed = rows.get(split, 0) / total, SHARE_SIGMAS * sqrt(fraction * (1 - fraction) / total)
            if abs(share - fraction) > allowed:
                yield f"class `{label}` has {share:.3f} of its rows in {split}, not {fraction}: many repeats?"


def _conflicting(tally: Tally, params: DataParams) -> Iterator[str]:
    if texts := tally.conflicts.get("texts"):
        done = "dropped" if params.on_conflict == "drop" else "kept"
        yield f"{texts:,} texts carry two labels or more; their rows are {done} (data.on_conflict)"


def report(tally: Tally, golden_rows: int, params: DataParams) -> dict[str, Any]:
    """data_report.json. No times and no texts in it: it is committed."""
    return {
        "rows": {
            "in": sum(tally.read.values()),
            **{split: tally.split_rows(split) for split in SPLITS},
            "golden": golden_rows,
            "dropped": sum(tally.dropped.values()),
        },
        "files": tally.read,
        "dropped": {
            reason: {"rows": rows, "examples": tally.dropped_rows[reason]}
            for reason, rows in sorted(tally.dropped.items())
        },
        "classes": {label: _class(rows) for label, rows in sorted(tally.classes.items())},
        "slices": dict(_largest(tally.slices)),
        "repeats": {"texts": tally.repeats.get("texts", 0), "rows": tally.repeats.get("rows", 0)},
        "conflicts": {
            "texts": tally.conflicts.get("texts", 0),
            "rows": tally.conflicts.get("rows", 0),
            "examples": list(tally.conflict_rows.values()),
        },
        "lengths": {"chars": _percentiles(tally.chars), "words": _percentiles(tally.words)},
        "warnings": warnings(tally, params),
    }


def _class(rows: Mapping[str, int]) -> dict[str, Any]:
    total = sum(rows.values())
    splits = {split: rows.get(split, 0) for split in SPLITS}
    return {"rows": total, **splits, "shares": {split: round(n / total, 4) for split, n in splits.items()}}


def _largest(slices: Mapping[str, Mapping[str, int]]) -> list[tuple[str, Mapping[str, int]]]:
    by_size = sorted(slices.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return sorted(by_size[:MAX_SLICES])


def _percentiles(lengths: Mapping[int, int]) -> dict[str, int]:
    """Nearest-rank percentiles of a histogram: length -> rows."""
    total = sum(lengths.values())
    found = {}
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)):
        rank, passed = ceil(total * percent / 100), 0
        for length, rows in sorted(lengths.items()):
            passed += rows
            if passed >= rank:
                found[name] = length
                break
    return found
