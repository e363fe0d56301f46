"""The scorer without a server: one text at a time, and 32 at a time, on so many threads; prints JSON."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from registry import scorer
from registry.runtimes import Engine

ALONE_S, TOGETHER_S = 4.0, 6.0


def main(folder: str, texts_file: str, runtime: str, threads: str) -> None:
    """Milliseconds of single texts (p50) and texts a second of lists, encoding and decoding included."""
    torch.set_num_threads(int(threads))
    score, texts = (
        scorer.load(Path(folder), engine=Engine(runtime, threads=int(threads))),
        pq.read_table(texts_file, columns=["text"])["text"].to_pylist(),
    )
    score(texts[:32])
    ms, until = [], time.monotonic() + ALONE_S
    while time.monotonic() < until:
        began = time.perf_counter()
        score([texts[len(ms) % len(texts)]])
        ms.append((time.perf_counter() - began) * 1000)
    done, began = 0, time.monotonic()
    while (took_s := time.monotonic() - began) < TOGETHER_S:
        start = done % (len(texts) - 32)
        score(texts[start : start + 32])
        done += 32
    print(json.dumps({"p50_ms": float(np.median(ms)), "texts_per_s": done / took_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
