"""The forward pass in ONNX Runtime: int8 on CPUs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from registry.bundle import MODEL
from registry.contract import Encoded, FloatArray, pad
from registry.files import read_json
from registry.runtimes import FOLDER, Engine

FILE = "model.onnx"
IDS, MASK, LOGITS = "input_ids", "attention_mask", "logits"
ERRORS = 3
"""Severity from which ONNX Runtime writes to stderr."""


class OnnxForward:
    """B encoded texts -> (B, C) logits."""

    def __init__(self, file: Path, pad_id: int, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = ERRORS
        # Threads that wait by spinning take the cores of whoever else works here.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self.pad_id = pad_id

    def __call__(self, encoded: Sequence[Encoded]) -> FloatArray:
        """(B, T) padded ids to (B, C) logits."""
        ids_BT, mask_BT = pad([e.ids for e in encoded], self.pad_id)
        given = {IDS: ids_BT, MASK: np.ones_like(ids_BT) if mask_BT is None else mask_BT}
        logits_BC: FloatArray = self._session.run([LOGITS], given)[0]
        return logits_BC


def load(bundle: Path, engine: Engine) -> OnnxForward:
    """The file that `package` built for this runtime."""
    pad_id = int(read_json(bundle / MODEL / "config.json")["pad_token_id"])
    return OnnxForward(bundle / FOLDER / engine.runtime / FILE, pad_id, engine.threads)
