"""What training and serving must agree on."""

import unicodedata

import numpy as np
import pytest

from registry import contract
from registry.contract import Contract, ContractError


@pytest.mark.parametrize(
    "text", ["", "   ", "\t\n", "\u200b" * 5, "\ufeff", "\u00ad", "\x00", "\u3164", "\u0301", "\u2800"]
)
def test_d19_a_text_without_ink_is_not_visible(text: str) -> None:
    assert not contract.is_visible(text)


@pytest.mark.parametrize("text", ["a", ".", "👍", "良", "\u0301a", "0"])
def test_a_text_with_ink_is_visible(text: str) -> None:
    assert contract.is_visible(text)


def test_two_spellings_of_one_text_are_one_text() -> None:
    assert contract.normalise(unicodedata.normalize("NFD", "café")) == "café"


def test_a_text_of_nothing_but_combining_marks_is_not_sorted_for_minutes() -> None:
    """UAX #15 section 13; without it NFC sorts the run in quadratic time, here for most of an hour."""
    marks = "a" + "\u0301" * 500_000 + "\u0316" * 500_000
    once = contract.normalise(marks)
    assert once[0] == "á" and once.count("\u0316") == 500_000
    assert contract.normalise(once[:5000]) == once[:5000]


@pytest.mark.parametrize(
    "text", ["これはとても良いです。" * 9, "a" + "\u0316\u0301" * 15, "привет " * 20, "👩\u200d👩 " * 30]
)
def test_what_a_language_writes_is_plain_nfc(text: str) -> None:
    assert contract.normalise(text) == unicodedata.normalize("NFC", text)


def test_padding_leaves_the_mask_out_when_nothing_is_padded() -> None:
    ids_BT, mask_BT = contract.pad([[1, 2], [3, 4]], 0)
    assert mask_BT is None
    assert ids_BT.tolist() == [[1, 2], [3, 4]]


def test_padding_is_on_the_right_and_masked() -> None:
    ids_BT, mask_BT = contract.pad([[1, 2, 3], [4]], 9)
    assert ids_BT.tolist() == [[1, 2, 3], [4, 9, 9]]
    assert mask_BT is not None
    assert mask_BT.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_scores_sum_to_one_and_temperature_flattens_them() -> None:
    made = Contract(labels=("a", "b"), max_tokens=8, temperature=2.0)
    (answer,) = contract.decode(made, np.array([[4.0, 0.0]], dtype=np.float32), [False])
    assert sum(answer.scores.values()) == pytest.approx(1.0, abs=1e-12)
    assert answer.score == pytest.approx(1 / (1 + np.exp(-2.0)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_s03_nan_never_becomes_an_answer(bad: float) -> None:
    with pytest.raises(ContractError, match="NaN"):
        contract.probabilities(np.array([[bad, 0.0]], dtype=np.float32), 1.0)
