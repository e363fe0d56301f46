"""What the rounds of `bench-serving` come to: medians, spread, and the ratios that are worth quoting; pure."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from registry.runtimes import Precision

OURS: dict[Precision, str] = {"int8": "ours, int8", "fp32": "ours, fp32"}
EMPTY, TWO, FASTAPI = "ours, empty model", "ours, int8, two replicas", "FastAPI + torch"
Round = Mapping[str, Any]


def ratios(rounds: Sequence[Round], raw: Sequence[Round], cpus: int) -> dict[str, float]:
    """Named ratios of medians over the rounds; one whose contenders were not run is left out.

    Names without a precision are of int8, which the default graph serves.
    `cpus`: of all model replicas together; the bare scorer of as many threads is what lists are held against.
    """
    names = {found["contender"] for found in rounds}
    peers = names - {*OURS.values(), TWO, EMPTY}
    found: dict[str, float] = {}
    for precision, ours in OURS.items():
        if ours not in names:
            continue
        mine = {name: _cell(rounds, ours, cell, key) for name, (cell, key) in CELLS.items()}
        bare = [one for one in raw if one["precision"] == precision]
        of = "" if precision == "int8" else f"{precision}_"
        found[f"{of}p99_over_p50_c16"] = mine["p99_c16"] / mine["p50_c16"]
        found[f"{of}list32_vs_raw"] = mine["list32"] / _raw(bare, cpus, "texts_per_s")
        found[f"{of}c1_p50_minus_raw_ms"] = mine["p50_c1"] - _raw(bare, 1, "p50_ms")
        found[f"{of}shutdown_s"] = _whole(rounds, ours, "shutdown_s")
        found[f"{of}cold_start_s"] = _whole(rounds, ours, "cold_start_s")
        if peers:
            best = max(_cell(rounds, peer, "64x1", "texts_per_s") for peer in peers)
            found[f"{precision}_c64_vs_best_peer"] = mine["c64"] / best
        if FASTAPI in names:
            found[f"{of}c1_p50_vs_fastapi"] = mine["p50_c1"] / _cell(rounds, FASTAPI, "1x1", "p50_ms")
    if EMPTY in names:
        found["overhead_cpu_ms"] = _cell(rounds, EMPTY, "64x1", "cpu_ms_per_request")
    return {name: round(value, 3) for name, value in found.items()}


CELLS = {
    "c64": ("64x1", "texts_per_s"),
    "list32": ("16x32", "texts_per_s"),
    "p50_c1": ("1x1", "p50_ms"),
    "p50_c16": ("16x1", "p50_ms"),
    "p99_c16": ("16x1", "p99_ms"),
}


def table(rounds: Sequence[Round], raw: Sequence[Round]) -> str:
    """The medians as Markdown, with the spread of the throughput."""
    names = list(dict.fromkeys(found["contender"] for found in rounds))
    cells = list(rounds[0]["cells"])
    head = [f"{cell.replace('x', ' x ')}: texts/s (p50, p99 ms)" for cell in cells]
    lines = ["| clients x texts a request | " + " | ".join(head) + " | CPU ms a request, 64 x 1 | PSS MB | errors |"]
    lines.append("|---" * (len(cells) + 4) + "|")
    for name in names:
        mine = [found for found in rounds if found["contender"] == name]
        shown = []
        for cell in cells:
            speeds = [found["cells"][cell]["texts_per_s"] for found in mine]
            p50, p99 = (median(found["cells"][cell][key] for found in mine) for key in ("p50_ms", "p99_ms"))
            shown.append(f"{median(speeds):.0f} [{min(speeds):.0f}-{max(speeds):.0f}] ({p50:.0f}, {p99:.0f})")
        cpu = median(found["cells"]["64x1"]["cpu_ms_per_request"] for found in mine)
        errors = sum(cell["errors"] for found in mine for cell in found["cells"].values())
        memory = median(found["pss_mb"] for found in mine)
        lines.append(f"| {name} | {' | '.join(shown)} | {cpu:.1f} | {memory:.0f} | {errors} |")
    for precision, threads in sorted({(one["precision"], one["threads"]) for one in raw}):
        bare = [one for one in raw if one["precision"] == precision]
        together, alone = _raw(bare, threads, "texts_per_s"), _raw(bare, threads, "p50_ms")
        said = f"{together:.0f} texts/s 32 at a time, {alone:.1f} ms alone"
        lines.append(f"\nThe bare scorer, {precision}, {threads} thread(s): {said}.")
    return "\n".join(lines) + "\n"


def _cell(rounds: Sequence[Round], contender: str, cell: str, key: str) -> float:
    return _median(rounds, contender, lambda found: found["cells"][cell][key])


def _whole(rounds: Sequence[Round], contender: str, key: str) -> float:
    return _median(rounds, contender, lambda found: found[key])


def _median(rounds: Sequence[Round], contender: str, value: Callable[[Round], float]) -> float:
    return float(median(value(found) for found in rounds if found["contender"] == contender))


def _raw(raw: Sequence[Round], threads: int, key: str) -> float:
    return float(median(one[key] for one in raw if one["threads"] == threads))
