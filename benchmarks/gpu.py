"""The champion on a GPU: every precision through the scorer, beside fp32 on the CPU; skipped where there is no CUDA.

Texts are the test split's; a batch is encoded, forwarded and decoded, as a replica does it.
"""

import sys
import time

import numpy as np
import pyarrow.parquet as pq
import torch

from pipeline import paths
from pipeline.params import load
from registry import scorer
from registry.bundle import MODEL
from registry.params import RegistryParams
from registry.runtimes import FP32, RUNTIMES, Engine
from registry.torch_engine import DTYPES, TorchForward
from registry.versions import open_registry

BATCHES = (1, 32, 256)
LEAST_S, LEAST_BATCHES = 2.0, 5


def main() -> None:
    """Print texts/s for each batch size, and how the labels agree with those of fp32."""
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return
    version = open_registry(paths.ROOT, load("registry", RegistryParams)).champion()
    if version is None:
        sys.exit("the champion is timed, and there is none: make repro first")
    texts = pq.read_table(paths.TEST, columns=["text"])["text"].to_pylist()
    exact = scorer.load(version.folder, version.digest, Engine(FP32))
    print(f"{torch.cuda.get_device_name()}, {version.digest}")
    expected = [answer.label for answer in exact(texts[:512])]
    for runtime in RUNTIMES.values():
        if "cuda" not in runtime.devices:
            continue
        forward = TorchForward(version.folder / MODEL, "cuda", DTYPES[runtime.precision])
        answer = scorer.Scorer(exact.contract, exact.encode, forward, version.digest, runtime.name, "cuda")
        agreement = np.mean([a.label == b for a, b in zip(answer(texts[:512]), expected, strict=True)])
        speeds = ", ".join(f"{_texts_per_s(answer, texts, size):,.0f} texts/s in {size}s" for size in BATCHES)
        print(f"{runtime.name:<11} {speeds}; {agreement:.4f} of 512 labels as fp32 on the CPU")


def _texts_per_s(answer: scorer.Scorer, texts: list[str], size: int) -> float:
    batches = [texts[start : start + size] for start in range(0, len(texts) - size + 1, size)]
    answer(batches[0])
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < LEAST_S or done < LEAST_BATCHES:
        answer(batches[done % len(batches)])
        done += 1
    return done * size / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
