"""What was counted on the way from files to splits. Tallies of parts add up to the tally of the whole."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

MAX_EXAMPLES = 5


class Tally(BaseModel):
    """Counts of some of the rows; two of them add up. Examples are row names, the smallest ones."""

    read: dict[str, int] = {}
    """File -> rows in it."""
    faults: dict[str, str] = {}
    """File or row -> what is wrong with it."""
    dropped: dict[str, int] = {}
    """Reason -> rows."""
    dropped_rows: dict[str, list[str]] = {}
    """Reason -> a few of them."""
    classes: dict[str, dict[str, int]] = {}
    """Label -> split -> rows."""
    slices: dict[str, dict[str, int]] = {}
    """Slice -> label -> rows."""
    chars: dict[int, int] = {}
    words: dict[int, int] = {}
    """Length of a text -> rows."""
    repeats: dict[str, int] = {}
    """`texts` on more than one row, `rows` beyond the first of each."""
    conflicts: dict[str, int] = {}
    """`texts` with two labels or more, `rows` that hold them."""
    conflict_rows: dict[str, list[str]] = {}
    """A few keys -> the labels and rows of a conflict."""

    def split_rows(self, split: str) -> int:
        """Rows of one split."""
        return sum(rows.get(split, 0) for rows in self.classes.values())


def add(tallies: Iterable[Tally]) -> Tally:
    """One tally for all, the same in any order."""
    total: dict[str, Any] = {}
    for tally in tallies:
        _add(total, tally.model_dump())
    for few in (total.get("dropped_rows", {}), total.get("conflict_rows", {})):
        few.update({name: sorted(rows, key=natural)[:MAX_EXAMPLES] for name, rows in few.items()})
    if "conflict_rows" in total:
        total["conflict_rows"] = dict(sorted(total["conflict_rows"].items())[:MAX_EXAMPLES])
    return Tally.model_validate(total)


def _add(total: dict[Any, Any], more: Mapping[Any, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), value)
        elif name in total:
            total[name] = total[name] + value
        else:
            total[name] = value


def natural(row: str) -> tuple[str, int]:
    """`file:10` after `file:9`."""
    file, _, number = row.rpartition(":")
    return (file, int(number)) if number.isdigit() else (row, 0)
