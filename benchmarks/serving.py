"""Our service and its peers in one run: the same bundle, the same texts, the same clients, round about.

Each contender runs in an environment of its own (benchmarks/contenders/requirements), set up as its documentation
advises, and is started and stopped anew in every round. Beside them run the bare scorer (the ceiling) and our graph
around a model that does nothing (the floor of the framework's cost).
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow.parquet as pq

from benchmarks import http_load, ratios
from benchmarks.contestants import CONTENDERS, CONTESTANTS, ENVIRONMENTS, HOST, ROOT, Contender, Place, environment
from pipeline import paths
from pipeline.params import load
from registry.bundle import VersionRef
from registry.params import RegistryParams
from registry.runtimes import BY_PRECISION, chosen
from registry.versions import open_registry
from serving.params import ServeParams
from serving.ports import free_port

RESULTS = ROOT / "benchmarks/results"
CELLS = [(clients, texts) for texts in (1, 32) for clients in (1, 16, 64)]
SETTLE_S, MEASURE_S, WARM_S = 1.0, 5.0, 2.0
START_S, STOP_S = 180.0, 60.0


def main() -> None:
    """Run `--rounds` rounds, print the table, write serving.json, serving.md and serving.png."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="NAME")
    given = parser.parse_args()
    version, texts = _champion(), pq.read_table(paths.SPLITS / "test.parquet", columns=["text"])["text"].to_pylist()
    pythons = {name: environment(CONTESTANTS[name].requirements) for name in given.only}
    rounds, raw, cpus = [], [], _cpus()
    for number in range(1, given.rounds + 1):
        for precision, threads in itertools.product(ratios.OURS, sorted({1, cpus})):
            about = {"round": number, "precision": precision, "threads": threads}
            raw.append({**about, **_raw(version, precision, threads)})
        for name in given.only:
            found = _measure(name, Place(version, free_port(HOST), pythons[name]), texts)
            rounds.append({"round": number, "contender": name, **found})
            print(_line(rounds[-1]), flush=True)
    result = {"machine": _machine(), "model_cpus": cpus, "version": version.model_dump(mode="json", exclude={"folder"})}
    result |= {"raw": raw, "rounds": rounds, "ratios": ratios.ratios(rounds, raw, cpus)}
    if len(given.only) < len(CONTESTANTS):
        print(json.dumps(result["ratios"], indent=2))
        return
    RESULTS.mkdir(exist_ok=True)
    table = ratios.table(rounds, raw)
    (RESULTS / "serving.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "serving.md").write_text(table)
    _plot(rounds)
    print(table)


def _champion() -> VersionRef:
    version = open_registry(ROOT, load("registry", RegistryParams)).champion()
    if version is None:
        sys.exit("bench-serving measures the champion, and there is none: make repro first")
    for precision in ratios.OURS:
        chosen(version.folder, precision, "cpu")
    return version


def _cpus() -> int:
    """Of all model replicas together, as params.yaml has them."""
    serve = load("serve", ServeParams)
    return math.ceil(serve.num_replicas * serve.num_cpus)


def _raw(version: VersionRef, precision: str, threads: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.contenders.raw", str(version.folder)]
    command += [str(paths.SPLITS / "test.parquet"), BY_PRECISION[precision].name, str(threads)]
    said: dict[str, float] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return said


def _measure(name: str, place: Place, texts: list[str]) -> dict[str, Any]:
    contender = CONTESTANTS[name]
    bodies = {size: _bodies(contender, place.port, texts, size) for size in {size for _, size in CELLS}}
    with _started(contender, place, texts) as (process, cold_s):
        http_load.run(HOST, place.port, bodies[1], 64, WARM_S)
        cells = {f"{c}x{size}": _cell(process, place.port, bodies[size], c, size) for c, size in CELLS}
        pss_mb = round(sum(_pss_mb(one) for one in _tree(process)))
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(STOP_S)
        stopped_s = time.monotonic() - told
    return {"cold_start_s": round(cold_s, 1), "shutdown_s": round(stopped_s, 1), "pss_mb": pss_mb, "cells": cells}


def _bodies(contender: Contender, port: int, texts: list[str], size: int) -> list[bytes]:
    lists = [texts[start : start + size] for start in range(0, len(texts) - size, size)]
    return [http_load.request(HOST, port, contender.path, json.dumps(contender.body(one)).encode()) for one in lists]


@contextlib.contextmanager
def _started(contender: Contender, place: Place, texts: list[str]) -> Iterator[tuple[psutil.Process, float]]:
    """The service, and the seconds to its first answer; its whole tree is gone after the block."""
    began, log = time.monotonic(), ENVIRONMENTS / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, **contender.environment(place), "TOKENIZERS_PARALLELISM": "false"}
    inside = ROOT if contender.requirements is None else CONTENDERS
    with log.open("w") as out:
        process = psutil.Popen(contender.command(place), cwd=inside, env=variables, stdout=out, stderr=out)
        tree = [process]
        try:
            url = f"http://{HOST}:{place.port}{contender.path}"
            while not _answers(url, contender.body(texts[:1])):
                if process.poll() is not None or time.monotonic() - began > START_S:
                    sys.exit(f"{contender.command(place)[:3]} did not answer; see {log}")
                time.sleep(0.05)
            cold_s = time.monotonic() - began
            tree = _tree(process)
            yield process, cold_s
        finally:
            for one in [*tree, *_tree(process)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait()


def _answers(url: str, body: object) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.post(url, json=body, timeout=30, trust_env=False).status_code == httpx.codes.OK
    return False


def _cell(process: psutil.Process, port: int, requests: Sequence[bytes], clients: int, size: int) -> dict[str, float]:
    cpu, began = _cpu_s(process), time.monotonic()
    done = http_load.run(HOST, port, requests, clients, SETTLE_S + MEASURE_S)
    used = _cpu_s(process) - cpu
    right = [one for one in done if one.status == httpx.codes.OK]
    kept = [one for one in right if one.ended >= began + SETTLE_S]
    took_s = max((one.ended for one in kept), default=began + SETTLE_S) - began - SETTLE_S
    ms = [(one.ended - one.began) * 1000 for one in kept] or [float("nan")]
    p50, p95, p99 = (round(float(np.quantile(ms, share)), 2) for share in (0.5, 0.95, 0.99))
    rate = len(kept) / took_s if took_s > 0 else 0.0
    return {
        "requests_per_s": round(rate, 2),
        "texts_per_s": round(rate * size, 2),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "errors": len(done) - len(right),
        "cpu_ms_per_request": round(used * 1000 / max(1, len(right)), 3),
        "cpu_s_per_1000_texts": round(used * 1000 / max(1, len(right) * size), 3),
    }


def _tree(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def _cpu_s(process: psutil.Process) -> float:
    total = 0.0
    for one in _tree(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def _pss_mb(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return float(process.memory_full_info().pss / 2**20)
    return 0.0


def _machine() -> dict[str, object]:
    model = "unknown"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    memory = round(psutil.virtual_memory().total / 2**30, 1)
    python = platform.python_version()
    return {"cpu": model, "cpus": os.cpu_count(), "memory_gib": memory, "python": python}


def _line(found: Mapping[str, Any]) -> str:
    cells = found["cells"]
    said = ", ".join(f"{name} {cell['texts_per_s']:.0f}/s p50 {cell['p50_ms']:.0f} ms" for name, cell in cells.items())
    return f"round {found['round']}, {found['contender']}: {said}; errors {sum(c['errors'] for c in cells.values())}"


def _plot(rounds: Sequence[Mapping[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(found["contender"] for found in rounds))
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for axis, size in zip(axes, (1, 32), strict=True):
        for name in names:
            cells = [f"{clients}x{size}" for clients in (1, 16, 64)]
            heights = [
                statistics.median(f["cells"][cell]["texts_per_s"] for f in rounds if f["contender"] == name)
                for cell in cells
            ]
            axis.plot(
                [1, 16, 64], heights, marker="o", label=name, linewidth=3 if name in ratios.OURS.values() else 1.5
            )
        axis.set(xscale="log", xticks=[1, 16, 64], xticklabels=["1", "16", "64"], xlabel="clients", ylabel="texts/s")
        axis.set(title=f"{size} text{'s' if size > 1 else ''} a request", ylim=0)
    axes[0].legend(fontsize=8)
    figure.savefig(RESULTS / "serving.png", dpi=120)


if __name__ == "__main__":
    main()
