"""Stage 5: checkpoint -> bundle, calibrated on validation and sealed with its canaries."""

import os

import numpy as np
import pyarrow.parquet as pq
import torch

from pipeline import paths, stage
from pipeline.params import load
from registry.bundle import read_contract
from registry.contract import probabilities
from registry.files import write_json
from registry.packing import fit_temperature, seal
from registry.params import PackageParams
from registry.scorer import uncalibrated
from training import metrics
from training.scoring import logits


def main() -> None:
    """Fit the temperature on the validation split, pack, and record what calibration did."""
    params = load("package", PackageParams)
    torch.set_num_threads(os.cpu_count() or 1)
    labels = read_contract(paths.CHECKPOINT).labels
    val = pq.read_table(paths.VAL, columns=["text", "label"]).to_pydict()
    truth_B = np.array([labels.index(label) for label in val["label"]])
    print(f"package: scoring {len(truth_B):,} validation rows", flush=True)
    logits_BC = logits(uncalibrated(paths.CHECKPOINT), val["text"])

    temperature = fit_temperature(logits_BC, truth_B) if params.calibrate else 1.0
    manifest = seal(paths.CHECKPOINT, paths.BUNDLE, temperature)

    errors = {
        name: round(metrics.calibration_error(probabilities(logits_BC, value), truth_B), 6)
        for name, value in (("before", 1.0), ("after", temperature))
    }
    write_json(paths.PACKAGE, {"digest": manifest.digest, "temperature": temperature, "calibration_error": errors})
    size_mb = sum(entry.bytes for entry in manifest.files) / 1e6
    print(f"package: {manifest.digest}, {size_mb:.0f} MB, temperature {temperature}, calibration error {errors}")


if __name__ == "__main__":
    stage.run("package", main)
