"""What training, evaluation and serving must agree on: normalise, encode, decode, and the label names.

Shape letters used in this package: B texts, T tokens, C classes.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, JsonValue
from tokenizers import Tokenizer

from registry.errors import Refused

FloatArray = npt.NDArray[np.float32]

# Letters and symbols that draw nothing: Hangul fillers and the blank Braille cell (Unicode 15, chart notes).
INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800")

MOST_MARKS, JOINER = 30, "\u034f"
# No combining mark lies below U+0300.
_MAYBE_MARKS = re.compile(f"[^\0-\u02ff]{{{MOST_MARKS + 1},}}")


class ContractError(Refused):
    """A text, a tokenizer or a score that breaks the contract."""


def normalise(text: str) -> str:
    """Unicode NFC (UAX #15): one spelling for é; nothing visible is changed or dropped.

    Of more than 30 combining marks in a row, which no language writes, each 30 are closed by U+034F first, as UAX #15's
    Stream-Safe Text Format says: sorting such a run takes quadratic time, minutes for a megabyte.
    """
    return unicodedata.normalize("NFC", _MAYBE_MARKS.sub(_stream_safe, text))


def _stream_safe(run: re.Match[str]) -> str:
    kept, marks = [], 0
    for char in run[0]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > MOST_MARKS:
            kept.append(JOINER)
            marks = 1
        kept.append(char)
    return "".join(kept)


def is_visible(text: str) -> bool:
    """Whether any character would draw ink: not white space, control, format, lone mark or filler."""
    return any(
        char not in INVISIBLE and unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp", "Mn", "Me"}
        for char in text
    )


def has_lone_surrogate(text: str) -> bool:
    """Whether the text holds half a character, which UTF-8 cannot carry."""
    return any("\ud800" <= char <= "\udfff" for char in text)


class Canary(BaseModel, frozen=True, extra="forbid"):
    """A text whose answer is known: replayed at load, in health checks and by verify."""

    text: str
    token_ids: tuple[int, ...]
    label: str
    scores: dict[str, tuple[float, ...]]
    """Runtime name -> calibrated probability per class, 4 decimals, in the order of the contract's labels."""


class Contract(BaseModel, frozen=True, extra="forbid"):
    """Everything that decides an answer besides the weights and the tokenizer."""

    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    """Class index -> label, sorted, as literally read from the data."""
    max_tokens: Annotated[int, Field(ge=2)]
    """Positions that a text may take, special tokens included."""
    normalisation: Literal["NFC"] = "NFC"
    truncation: Literal["right"] = "right"
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Logits are divided by it before the softmax (Guo et al., ICML 2017)."""
    training: dict[str, JsonValue] = {}
    """The settings that made the weights, tuned ones included; shown by `/health`."""
    canaries: tuple[Canary, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text as the model reads it."""

    ids: tuple[int, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Prediction:
    """One text's answer; `scores` sum to 1 and are named by the contract's labels."""

    label: str
    score: float
    scores: dict[str, float]
    truncated: bool


class Encoder:
    """Texts in, token ids out: the one tokenizer call of training, evaluation, ingress and gates."""

    def __init__(self, tokenizer_file: Path, max_tokens: int, pad_id: int) -> None:
        """Raises ContractError when the file is missing; slow-only tokenizers have no such file."""
        if not tokenizer_file.is_file():
            raise ContractError(f"{tokenizer_file} is missing; only tokenizers with a tokenizer.json can be served.")
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens, direction="right")
        self._pad_id = pad_id

    def __call__(self, texts: Sequence[str]) -> list[Encoded]:
        """Same order, same count. A text that yields no token at all becomes one pad token."""
        encodings = self._tokenizer.encode_batch([normalise(text) for text in texts])
        return [Encoded(tuple(e.ids) or (self._pad_id,), bool(e.overflowing)) for e in encodings]


def pad(ids: Sequence[Sequence[int]], pad_id: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Right-pad to (B, T) ids and a (B, T) mask; the mask is None when nothing is padded.

    An all-ones mask costs torch about a quarter of a forward on CPU, so it is left out.
    """
    longest = max(map(len, ids))
    ids_BT = np.full((len(ids), longest), pad_id, dtype=np.int64)
    mask_BT = np.zeros((len(ids), longest), dtype=np.int64)
    for row, tokens in enumerate(ids):
        ids_BT[row, : len(tokens)] = tokens
        mask_BT[row, : len(tokens)] = 1
    return ids_BT, None if mask_BT.all() else mask_BT


def probabilities(logits_BC: FloatArray, temperature: float) -> npt.NDArray[np.float64]:
    """Softmax of logits / temperature in double precision; rows sum to 1. Raises ContractError on NaN."""
    if not np.isfinite(logits_BC).all():
        raise ContractError("the model answered with NaN or infinity; its weights or its input are broken.")
    scaled_BC = logits_BC.astype(np.float64) / temperature
    exp_BC = np.exp(scaled_BC - scaled_BC.max(axis=1, keepdims=True))
    result: npt.NDArray[np.float64] = exp_BC / exp_BC.sum(axis=1, keepdims=True)
    return result


def decode(contract: Contract, logits_BC: FloatArray, truncated: Sequence[bool]) -> list[Prediction]:
    """(B, C) logits to named, calibrated predictions; ties go to the first label. Raises ContractError on NaN."""
    predictions = []
    for scores_C, cut in zip(probabilities(logits_BC, contract.temperature), truncated, strict=True):
        best = int(scores_C.argmax())
        named = dict(zip(contract.labels, map(float, scores_C), strict=True))
        predictions.append(Prediction(contract.labels[best], float(scores_C[best]), named, cut))
    return predictions
