"""Whether one good version gets one verdict: verified again and again, idle and beside a busy core.

Every run measures the default gates of the version that was registered last and writes nothing (`--only`). A
machine's fault (exit 3) is no verdict and is counted apart.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from registry.gates import FULL, MODEL_GATES, SERVICE_GATES

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks/results/verify_stability.json"
VERDICTS = {0: "pass", 1: "fail", 3: "machine"}


def main() -> None:
    """Verify `--runs` times idle and as often beside a busy loop; exits 1 unless every run passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    found = {"idle": [_verify("idle", run) for run in range(runs)]}
    with _busy():
        found["beside a busy core"] = [_verify("beside a busy core", run) for run in range(runs)]
    for beside, all_of in found.items():
        seconds = [one["seconds"] for one in all_of]
        passed = sum(one["verdict"] == "pass" for one in all_of)
        print(
            f"{beside:<20} {passed} of {runs} passed, {statistics.median(seconds):.0f} s "
            f"({min(seconds):.0f} to {max(seconds):.0f})"
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(any(one["verdict"] != "pass" for all_of in found.values() for one in all_of))


def _verify(beside: str, run: int) -> dict[str, object]:
    gates = [name for name in (*MODEL_GATES, *SERVICE_GATES) if name not in FULL]
    command = [sys.executable, "-m", "pipeline.verify", "--only", *gates]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds, verdict = round(time.monotonic() - began, 1), VERDICTS.get(done.returncode, str(done.returncode))
    said = [line.removeprefix("verify: ") for line in done.stdout.splitlines() if line.startswith("verify: fail")]
    why = said or ([] if done.returncode == 0 else done.stderr.strip().splitlines()[-1:])
    print(f"{beside}, run {run + 1}: {verdict} after {seconds:.0f} s {'; '.join(why)}", flush=True)
    return {"verdict": verdict, "seconds": seconds, "why": why}


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as loop:
        try:
            yield
        finally:
            loop.kill()


if __name__ == "__main__":
    main()
