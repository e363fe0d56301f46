"""What `dvc repro` costs: seconds and peak memory of every stage, as `make bench-stages` prints them.

Memory is PSS summed over the stage's whole process tree: shared pages count once. Asking for it makes the kernel walk
every page, so it is asked less often than the clock is read.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks/results/stages.json"
LOOK_S, SAMPLE_S = 0.5, 3.0


def main() -> None:
    """Run `dvc repro` (all stages again with --force) and record each stage as it runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--force", action="store_true", help="run every stage even when nothing changed")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "dvc", "repro", *(["--force"] if arguments.force else [])]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT) as repro:
        stages = _watch(psutil.Process(repro.pid), repro)
    total_s = time.monotonic() - started
    _print(stages, total_s)
    machine = {"cpus": psutil.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1)}
    machine["python"] = platform.python_version()
    result = {"machine": machine, "total_s": round(total_s, 1), "exit": repro.returncode, "stages": stages}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n")


def _watch(root: psutil.Process, repro: "subprocess.Popen[bytes]") -> dict[str, dict[str, float]]:
    stages: dict[str, dict[str, float]] = {}
    sampled = 0.0
    while repro.poll() is None:
        tree = _descendants(root)
        name = next((stage for process in tree if (stage := _stage_of(process))), None)
        if name:
            now = time.monotonic()
            seen = stages.setdefault(name, {"started": now, "seconds": 0.0, "peak_pss_mb": 0.0})
            seen["seconds"] = round(now - seen["started"], 1)
            if now - sampled >= SAMPLE_S or not seen["peak_pss_mb"]:
                sampled = now
                seen["peak_pss_mb"] = max(seen["peak_pss_mb"], round(sum(map(_pss_mb, tree))))
        time.sleep(LOOK_S)
    for seen in stages.values():
        del seen["started"]
    return stages


def _descendants(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _stage_of(process: psutil.Process) -> str | None:
    try:
        modules = [part for part in process.cmdline() if part.startswith("pipeline.")]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None
    return modules[0].removeprefix("pipeline.") if modules else None


def _pss_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / 1e6
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0.0


def _print(stages: dict[str, dict[str, float]], total_s: float) -> None:
    print(f"\n{'stage':<10}{'seconds':>9}{'peak PSS':>12}")
    for name, seen in stages.items():
        print(f"{name:<10}{seen['seconds']:>9.1f}{seen['peak_pss_mb']:>9.0f} MB")
    print(f"{'all':<10}{total_s:>9.1f}{max((s['peak_pss_mb'] for s in stages.values()), default=0):>9.0f} MB")


if __name__ == "__main__":
    main()
