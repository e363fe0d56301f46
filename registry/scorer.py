"""A loaded bundle: encode, forward, decode.

No framework around it, so it runs in a test, a gate and a replica alike.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from registry import bundle
from registry.bundle import BundleError
from registry.contract import Contract, Encoded, Encoder, FloatArray, Prediction, decode, pad
from registry.cutting import cut

Forward = Callable[[Sequence[Encoded]], FloatArray]
"""B encoded texts -> (B, C) logits."""

TORCH_FP32 = "torch-fp32"

FORWARD_TOKENS = {"cpu": 16.0, "cuda": 1e9}
"""What a forward costs whatever is in it, in tokens' time; `python -m benchmarks.forward` measures it on a CPU.

A GPU is to fill up with the whole batch.
"""
MOST_TOKENS = 16_384
"""Padded tokens of one forward: what it keeps in memory grows with them."""

# Rounding to 4 decimals, other CPUs' kernels and other batch shapes move an fp32 score by far less than this.
CANARY_TOLERANCE = {TORCH_FP32: 1e-3}


class TorchForward:
    """The forward pass in torch, fp32, on one device."""

    def __init__(self, model_folder: Path, device: str) -> None:
        # dtype is stated: transformers 5 defaults to the checkpoint's own.
        model = AutoModelForSequenceClassification.from_pretrained(
            model_folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        self.pad_id = int(model.config.pad_token_id)
        self._device = torch.device(device)
        self._model = model.to(self._device).eval()

    @torch.inference_mode()
    def __call__(self, encoded: Sequence[Encoded]) -> FloatArray:
        """(B, T) padded ids to (B, C) logits."""
        ids_BT, mask_BT = pad([e.ids for e in encoded], self.pad_id)
        mask = None if mask_BT is None else torch.from_numpy(mask_BT).to(self._device)
        logits_BC = self._model(input_ids=torch.from_numpy(ids_BT).to(self._device), attention_mask=mask).logits
        result: FloatArray = logits_BC.float().cpu().numpy()
        return result


RUNTIMES: dict[str, Callable[[Path, str], TorchForward]] = {
    TORCH_FP32: lambda folder, device: TorchForward(folder / bundle.MODEL, device),
}


class Scorer:
    """A loaded bundle: texts in, predictions out, same order, same count.

    The only code that turns text into a label.
    """

    def __init__(self, contract: Contract, encode: Encoder, forward: Forward, digest: str, runtime: str, device: str):
        self.contract, self.encode, self.forward = contract, encode, forward
        self.digest, self.runtime, self.device = digest, runtime, device

    def decode(self, logits_BC: FloatArray, encoded: Sequence[Encoded]) -> list[Prediction]:
        """(B, C) logits to predictions. Raises ContractError on NaN."""
        return decode(self.contract, logits_BC, [e.truncated for e in encoded])

    def score(self, encoded: Sequence[Encoded]) -> list[Prediction]:
        """Encoded texts to predictions, texts of like length in a forward. Raises ContractError on NaN."""
        return self.score_padded(encoded)[0]

    def score_padded(self, encoded: Sequence[Encoded]) -> tuple[list[Prediction], float]:
        """As `score`, and the share of padding among the tokens that went through the model."""
        if not encoded:
            return [], 0.0
        logits_BC = np.empty((len(encoded), len(self.contract.labels)), dtype=np.float32)
        lengths, forwarded = [len(one.ids) for one in encoded], 0
        for places in cut(lengths, FORWARD_TOKENS[torch.device(self.device).type], MOST_TOKENS):
            logits_BC[places] = self.forward([encoded[place] for place in places])
            forwarded += len(places) * max(lengths[place] for place in places)
        return self.decode(logits_BC, encoded), 1 - sum(lengths) / forwarded

    def __call__(self, texts: Sequence[str]) -> list[Prediction]:
        """Texts to predictions, texts of like length in a forward. Raises ContractError on NaN."""
        return self.score(self.encode(texts))


def uncalibrated(checkpoint: Path, device: str = "cpu") -> Scorer:
    """A scorer straight from a checkpoint folder, before it is a bundle: no digest, no canaries, temperature 1."""
    contract = bundle.read_contract(checkpoint)
    forward = TorchForward(checkpoint, device)
    encode = Encoder(checkpoint / "tokenizer.json", contract.max_tokens, forward.pad_id)
    return Scorer(contract, encode, forward, "", TORCH_FP32, device)


def load(folder: Path, expected_digest: str | None = None, runtime: str = TORCH_FP32, device: str = "cpu") -> Scorer:
    """Re-hash a bundle, load one runtime of it and replay its canaries.

    Raises BundleError naming the file or the canary that differs, with the remedy.
    """
    manifest = bundle.check(folder, expected_digest)
    contract = bundle.read_contract(folder)
    forward = RUNTIMES[runtime](folder, device)
    scorer = Scorer(contract, bundle.encoder_of(folder), forward, manifest.digest, runtime, device)
    replay_canaries(scorer)
    return scorer


def replay_canaries(scorer: Scorer) -> None:
    """Ask every canary again. Raises BundleError when token ids, a label or a score differ from the recorded ones."""
    for canary in scorer.contract.canaries:
        (encoded,) = scorer.encode([canary.text])
        if encoded.ids != canary.token_ids:
            raise BundleError(_canary_fault(canary.text, "is tokenised otherwise", canary.token_ids, encoded.ids))
        wrong = canary_fault(scorer, canary.text, scorer.score([encoded])[0])
        if wrong:
            raise BundleError(wrong)


def canary_fault(scorer: Scorer, text: str, answer: Prediction) -> str | None:
    """What is wrong with this answer to a canary, or None."""
    canary = next(c for c in scorer.contract.canaries if c.text == text)
    expected_C = np.array(canary.scores[scorer.runtime])
    got_C = np.array([answer.scores[label] for label in scorer.contract.labels])
    close = np.abs(expected_C - got_C).max() <= CANARY_TOLERANCE[scorer.runtime]
    near_tie = np.partition(expected_C, -2)[-1] - np.partition(expected_C, -2)[-2] <= CANARY_TOLERANCE[scorer.runtime]
    if close and (answer.label == canary.label or near_tie):
        return None
    return _canary_fault(text, f"is answered otherwise by {scorer.runtime}", expected_C.tolist(), got_C.tolist())


def _canary_fault(text: str, what: str, expected: object, got: object) -> str:
    return (
        f"the canary {text!r} {what} than when the bundle was packaged: expected {expected}, got {got}. "
        "Check the versions of torch, transformers and tokenizers against requirements.lock, "
        "or restore the bundle: python -m pipeline.register --again"
    )
