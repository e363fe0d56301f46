"""How fast a forward could be here: the model's arithmetic, counted, and what a plain matmul makes of this machine.

Neither asks the scorer that is judged, so a slow scorer cannot slow its own yardstick.
"""

import functools
import time
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

SIDE = 1024
"""Rows and columns of the square matrices: large enough that a library's best kernel is at work."""


@functools.cache
def _shapes_only(model_folder: Path) -> PreTrainedModel:
    config = AutoConfig.from_pretrained(model_folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    return model.eval()


@functools.cache
def flops(model_folder: Path, texts: int, tokens: int) -> int:
    """Floating-point operations of one forward of (texts, tokens) ids, two to a multiply-add.

    Counted by torch on the meta device, where a model has shapes and no numbers.
    """
    ids_BT = torch.zeros((texts, tokens), dtype=torch.int64, device="meta")
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        _shapes_only(model_folder)(input_ids=ids_BT)
    total: int = counter.get_total_flops()
    return total


@torch.inference_mode()
def matmul_flops_per_s(device: str, at_least_s: float) -> float:
    """Operations/s of fp32 matmuls on the threads that this process has."""
    left, right = (torch.rand((SIDE, SIDE), device=device) for _ in range(2))
    torch.mm(left, right)
    began, done = time.perf_counter(), 0
    while True:
        # .item() waits for a GPU, which answers before it is done.
        torch.mm(left, right)[0, 0].item()
        done += 1
        taken = time.perf_counter() - began
        if taken >= at_least_s:
            return done * 2.0 * SIDE**3 / taken
