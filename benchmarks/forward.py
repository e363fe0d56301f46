"""What a forward costs: a line through the times of many shapes -> milliseconds a token, and the overhead of one."""

import argparse
import sys
import time

import numpy as np
import torch

from pipeline import paths
from pipeline.params import load
from registry.contract import Encoded
from registry.params import RegistryParams
from registry.runtimes import FP32, RUNTIMES, Engine
from registry.scorer import FORWARD_TOKENS
from registry.scorer import load as load_bundle
from registry.versions import open_registry

SHAPES = [(texts, tokens) for texts in (1, 2, 4, 8, 16, 32) for tokens in (8, 16, 32, 64) if texts * tokens <= 1024]
REPEATS = 7


def main() -> None:
    """Time the champion's forward and fit ms = a + b x tokens by least squares on relative errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runtime", choices=RUNTIMES, default=FP32)
    given = parser.parse_args()
    threads, engine = given.threads, Engine(given.runtime, threads=given.threads)
    version = open_registry(paths.ROOT, load("registry", RegistryParams)).champion()
    if version is None:
        sys.exit("the champion is timed, and there is none: make repro first")
    torch.set_num_threads(threads)
    forward = load_bundle(version.folder, version.digest, engine).forward
    times = {shape: _ms(forward, *shape) for shape in SHAPES}
    tokens, ms = np.array([t * n for t, n in times]), np.array(list(times.values()))
    per_token, overhead = np.polyfit(tokens, ms, 1, w=1 / ms)
    for (texts, length), taken in times.items():
        print(f"{texts:>3} x {length:<3} {taken:7.2f} ms, fitted {overhead + per_token * texts * length:7.2f}")
    said = f"{per_token:.4f} ms a token, {overhead:.2f} ms a forward = {overhead / per_token:.1f} tokens"
    print(f"{threads} thread(s): {said}")
    print(f"registry/scorer.py reckons with {FORWARD_TOKENS[engine.runtime.split('-')[0]]:g} tokens on a CPU")


def _ms(forward, texts: int, tokens: int) -> float:  # type: ignore[no-untyped-def]
    batch = [Encoded(tuple(range(1000, 1000 + tokens)), truncated=False)] * texts
    forward(batch)
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        forward(batch)
        taken.append((time.perf_counter() - began) * 1000)
    return float(np.median(taken))


if __name__ == "__main__":
    main()
