"""A checkpoint's model -> an int8 file for ONNX Runtime.

Weights are int8 in blocks of 32 along the inputs with a scale each; activations become int8 in the same blocks, with
scales computed per row and block as they come (`MatMulNBits` with `accuracy_level` 4, onnxruntime's contrib
operators). Ranges of one row only: no text moves another's answer, as it would with one range for the whole batch.
"""

import contextlib
import io
import logging
from pathlib import Path
from typing import Any

import onnx
import torch
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch.export import Dim
from transformers import AutoModelForSequenceClassification

from registry.onnx_engine import FILE, IDS, LOGITS, MASK

BITS, BLOCK, INT8_ACTIVATIONS = 8, 32, 4
EXAMPLE = (2, 8)


class _Logits(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self._model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def build(model_folder: Path, max_tokens: int, folder: Path) -> None:
    """Write FILE into `folder`; the same weights give the same bytes. Raises what torch does when it cannot export."""
    model = AutoModelForSequenceClassification.from_pretrained(
        model_folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
    )
    batch, tokens = Dim("batch"), Dim("tokens", max=max_tokens)
    axes = {0: batch, 1: tokens}
    # Two tensors: of one that is given twice torch.export makes one input (torch 2.13).
    ids, mask = torch.ones(EXAMPLE, dtype=torch.long), torch.ones(EXAMPLE, dtype=torch.long)
    with _quiet():
        program = torch.onnx.export(
            _Logits(model).eval(),
            (ids, mask),
            input_names=[IDS, MASK],
            output_names=[LOGITS],
            dynamic_shapes={IDS: axes, MASK: axes},
            dynamo=True,
            verbose=False,
        )
        if program is None:
            raise RuntimeError("torch exported nothing")
        quantizer = MatMulNBitsQuantizer(
            program.model_proto, bits=BITS, block_size=BLOCK, is_symmetric=True, accuracy_level=INT8_ACTIVATIONS
        )
        quantizer.process()
    onnx.save(_bare(quantizer.model.model), folder / FILE)


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what the exporter tells of this machine: source paths, stack traces, versions."""
    for message in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        message.ClearField("doc_string")
        message.ClearField("metadata_props")
    for message in (*model.graph.input, *model.graph.output):
        message.ClearField("doc_string")
        message.ClearField("metadata_props")
    model.ClearField("producer_name")
    model.ClearField("producer_version")
    return model


@contextlib.contextmanager
def _quiet() -> Any:
    """Exporter and quantizer tell every node's name."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)
