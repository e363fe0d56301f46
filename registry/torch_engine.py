"""The forward pass in torch."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from registry.bundle import MODEL
from registry.contract import Encoded, FloatArray, pad
from registry.runtimes import RUNTIMES, Engine

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class TorchForward:
    """B encoded texts -> (B, C) logits, in one precision, on one device."""

    def __init__(self, model_folder: Path, device: str, dtype: torch.dtype = torch.float32) -> None:
        # dtype is stated: transformers 5 defaults to the checkpoint's own.
        model = AutoModelForSequenceClassification.from_pretrained(
            model_folder, dtype=dtype, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        self.pad_id = int(model.config.pad_token_id)
        self._device = torch.device(device)
        self._model = model.to(self._device).eval()

    @torch.inference_mode()
    def __call__(self, encoded: Sequence[Encoded]) -> FloatArray:
        """(B, T) padded ids to (B, C) logits."""
        ids_BT, mask_BT = pad([e.ids for e in encoded], self.pad_id)
        mask = None if mask_BT is None else self._there(torch.from_numpy(mask_BT))
        logits_BC = self._model(input_ids=self._there(torch.from_numpy(ids_BT)), attention_mask=mask).logits
        result: FloatArray = logits_BC.float().cpu().numpy()
        return result

    def _there(self, values: torch.Tensor) -> torch.Tensor:
        # From pinned memory the copy runs beside what the GPU computes.
        return values.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else values


def load(bundle: Path, engine: Engine) -> TorchForward:
    """The bundle's weights in the precision of this runtime."""
    return TorchForward(bundle / MODEL, engine.device, DTYPES[RUNTIMES[engine.runtime].precision])
