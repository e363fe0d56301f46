"""A loaded bundle: encode, forward, decode.

No framework around it, so it runs in a test, a gate and a replica alike; the engine is loaded with the bundle.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from registry import bundle
from registry.bundle import BundleError
from registry.contract import Contract, Encoded, Encoder, FloatArray, Prediction, decode
from registry.cutting import cut
from registry.runtimes import FP32, RUNTIMES, Engine

Forward = Callable[[Sequence[Encoded]], FloatArray]
"""B encoded texts -> (B, C) logits."""

FORWARD_TOKENS = {"torch": 16.0, "onnx": 3.0}
"""What a forward costs on a CPU whatever is in it, in tokens' time; `python -m benchmarks.forward` measures it."""
GPU_TOKENS = 1e9
"""A GPU is to fill up with the whole batch."""
MOST_TOKENS = 16_384
"""Padded tokens of one forward: what it keeps in memory grows with them."""


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
        overhead = FORWARD_TOKENS[self.runtime.split("-")[0]] if self.device == "cpu" else GPU_TOKENS
        for places in cut(lengths, overhead, MOST_TOKENS):
            logits_BC[places] = self.forward([encoded[place] for place in places])
            forwarded += len(places) * max(lengths[place] for place in places)
        return self.decode(logits_BC, encoded), 1 - sum(lengths) / forwarded

    def __call__(self, texts: Sequence[str]) -> list[Prediction]:
        """Texts to predictions, texts of like length in a forward. Raises ContractError on NaN."""
        return self.score(self.encode(texts))


def uncalibrated(checkpoint: Path, forward: Forward | None = None, runtime: str = FP32) -> Scorer:
    """A scorer straight from a checkpoint folder, before it is a bundle: no digest, no canaries, temperature 1.

    `forward`: another engine's, built from the same checkpoint; None: torch in fp32.
    """
    from registry.torch_engine import TorchForward

    contract = bundle.read_contract(checkpoint)
    torch_forward = TorchForward(checkpoint, "cpu")
    encode = Encoder(checkpoint / "tokenizer.json", contract.max_tokens, torch_forward.pad_id)
    return Scorer(contract, encode, forward or torch_forward, "", runtime, "cpu")


def load(folder: Path, expected_digest: str | None = None, engine: Engine = Engine()) -> Scorer:  # noqa: B008 - frozen
    """Re-hash a bundle, load one runtime of it and replay its canaries.

    Raises BundleError naming the file or the canary that differs, with the remedy.
    """
    manifest = bundle.check(folder, expected_digest)
    contract = bundle.read_contract(folder)
    forward = _forward(folder, engine)
    scorer = Scorer(contract, bundle.encoder_of(folder), forward, manifest.digest, engine.runtime, engine.device)
    replay_canaries(scorer)
    return scorer


def _forward(folder: Path, engine: Engine) -> Forward:
    # Only the engine that answers is imported: torch alone costs a replica seconds and hundreds of megabytes.
    if engine.runtime.startswith("onnx"):
        from registry import onnx_engine

        return onnx_engine.load(folder, engine)
    from registry import torch_engine

    return torch_engine.load(folder, engine)


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
    tolerance = RUNTIMES[scorer.runtime].tolerance
    expected_C = np.array(canary.scores[scorer.runtime])
    got_C = np.array([answer.scores[label] for label in scorer.contract.labels])
    close = np.abs(expected_C - got_C).max() <= tolerance
    near_tie = np.partition(expected_C, -2)[-1] - np.partition(expected_C, -2)[-2] <= tolerance
    if close and (answer.label == canary.label or near_tie):
        return None
    return _canary_fault(text, f"is answered otherwise by {scorer.runtime}", expected_C.tolist(), got_C.tolist())


def _canary_fault(text: str, what: str, expected: object, got: object) -> str:
    return (
        f"the canary {text!r} {what} than when the bundle was packaged: expected {expected}, got {got}. "
        "Check the versions of torch, transformers, onnxruntime and tokenizers against requirements.lock, "
        "or restore the bundle: python -m pipeline.register --again"
    )
