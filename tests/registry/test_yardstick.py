"""The yardstick counts a model's arithmetic without running it."""

from pathlib import Path

import pytest
from safetensors import safe_open

from registry import bundle, yardstick


def test_a_forward_costs_two_operations_a_weight_and_token_and_what_attention_adds(tiny_bundle: Path) -> None:
    model = tiny_bundle / bundle.MODEL
    with safe_open(model / "model.safetensors", "pt") as weights:
        per_token = sum(
            weights.get_tensor(name).numel()
            for name in weights.keys()  # noqa: SIM118 - no mapping
            if name.endswith("weight") and ".layer." in name and "LayerNorm" not in name
        )
    least = 2 * 8 * 16 * per_token
    assert least <= yardstick.flops(model, 8, 16) <= 1.5 * least
    assert yardstick.flops(model, 16, 16) == pytest.approx(2 * yardstick.flops(model, 8, 16))
    assert yardstick.flops(model, 8, 32) > 2 * yardstick.flops(model, 8, 16)


def test_a_matmul_has_a_pace() -> None:
    assert yardstick.matmul_flops_per_s("cpu", at_least_s=0.05) > 1e8
