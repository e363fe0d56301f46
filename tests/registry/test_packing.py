"""Calibration finds the temperature that made the logits too sure."""

import numpy as np
import pytest

from registry.packing import fit_temperature


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 2.5])
def test_the_fitted_temperature_undoes_a_known_one(true_temperature: float) -> None:
    rng = np.random.default_rng(0)
    honest_BC = rng.normal(0, 1.5, (20_000, 3))
    scores_BC = np.exp(honest_BC) / np.exp(honest_BC).sum(axis=1, keepdims=True)
    truth_B = (rng.random((20_000, 1)) > scores_BC.cumsum(axis=1)).sum(axis=1)
    fitted = fit_temperature((honest_BC * true_temperature).astype(np.float32), truth_B)
    assert fitted == pytest.approx(true_temperature, rel=0.05)
