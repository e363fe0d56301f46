"""Stage 5: checkpoint -> bundle, calibrated on validation and sealed with its canaries."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from pydantic import JsonValue

from pipeline import paths, stage
from pipeline.params import load
from registry import variants
from registry.bundle import read_contract
from registry.contract import FloatArray, probabilities
from registry.files import write_json
from registry.packing import fit_temperature, seal
from registry.params import PackageParams
from registry.runtimes import BY_PRECISION, FP32, PARITY
from registry.scorer import uncalibrated
from training import metrics
from training.metrics import Ints
from training.scoring import logits


def main() -> None:
    """Fit the temperature on the validation split, keep the runtimes that answer alike, pack, and record all of it."""
    params = load("package", PackageParams)
    torch.set_num_threads(os.cpu_count() or 1)
    labels = read_contract(paths.CHECKPOINT).labels
    val = pq.read_table(paths.VAL, columns=["text", "label"]).to_pydict()
    truth_B = np.array([labels.index(label) for label in val["label"]])
    print(f"package: scoring {len(truth_B):,} validation rows", flush=True)
    logits_BC = logits(uncalibrated(paths.CHECKPOINT), val["text"])

    temperature = fit_temperature(logits_BC, truth_B) if params.calibrate else 1.0
    with tempfile.TemporaryDirectory() as scratch:
        kept: dict[str, Path] = {}
        found: dict[str, JsonValue] = {}
        for precision in params.precisions:
            runtime, folder = BY_PRECISION[precision].name, Path(scratch) / precision
            if runtime != FP32:
                found[runtime] = parity = _variant(runtime, folder, val["text"], logits_BC, truth_B, params)
                kept |= {runtime: folder} if parity["kept"] else {}
        manifest = seal(paths.CHECKPOINT, paths.BUNDLE, temperature, kept)

    errors = {
        name: round(metrics.calibration_error(probabilities(logits_BC, value), truth_B), 6)
        for name, value in (("before", 1.0), ("after", temperature))
    }
    record = {"digest": manifest.digest, "temperature": temperature, "calibration_error": errors, "runtimes": found}
    write_json(paths.PACKAGE, record)
    size_mb = sum(entry.bytes for entry in manifest.files) / 1e6
    print(f"package: {manifest.digest}, {size_mb:.0f} MB, temperature {temperature}, calibration error {errors}")


def _variant(
    runtime: str, folder: Path, texts: list[str], fp32_BC: FloatArray, truth_B: Ints, params: PackageParams
) -> dict[str, JsonValue]:
    """Build it in `folder` and compare it with fp32 on validation; its record, which lies in the folder when kept."""
    folder.mkdir()
    print(f"package: building {runtime}", flush=True)
    try:
        forward = variants.build(paths.CHECKPOINT, runtime, folder, os.cpu_count() or 1)
        logits_BC = logits(uncalibrated(paths.CHECKPOINT, forward, runtime), texts)
    except (OSError, MemoryError, ImportError):
        # The machine's fault, not the model's: the next run may well build it.
        raise
    except Exception as error:
        # Exporters fail in as many ways as there are models, and fp32 answers all the same.
        why = f"could not be built: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        print(f"package: {runtime} is left out: {why}", flush=True)
        return {"kept": False, "why": why}
    agreement = float((logits_BC.argmax(axis=1) == fp32_BC.argmax(axis=1)).mean())
    drop = metrics.macro_f1(truth_B, fp32_BC.argmax(axis=1)) - metrics.macro_f1(truth_B, logits_BC.argmax(axis=1))
    keeps = agreement >= params.min_agreement and drop <= params.max_f1_drop
    measured = {"agreement": round(agreement, 6), "macro_f1_drop": round(drop, 6), "rows": len(texts)}
    said = f"{agreement:.4f} of the labels as fp32 (at least {params.min_agreement}), macro-F1 lower by {drop:.4f}"
    print(f"package: {runtime} is {'kept' if keeps else 'left out'}: {said} (at most {params.max_f1_drop})", flush=True)
    write_json(folder / PARITY, measured)
    return {"kept": keeps, **measured}


if __name__ == "__main__":
    stage.run("package", main)
