"""The scorer answers alike alone and in company, and knows its own bytes."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from registry import bundle, scorer
from registry.bundle import BundleError
from registry.contract import Encoded, FloatArray
from registry.packing import seal
from tests import tiny


def test_a_packaged_checkpoint_answers_what_it_learnt(tiny_bundle: Path) -> None:
    answer = scorer.load(tiny_bundle)
    rows = tiny.rows(60, seed=5)
    right = sum(p.label == row["label"] for p, row in zip(answer([r["text"] for r in rows]), rows, strict=True))
    assert right >= 55


def test_two_packs_of_one_checkpoint_have_one_digest(tiny_checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint, tmp_path / "elsewhere")
    one = seal(tiny_checkpoint, tmp_path / "one", 1.25)
    other = seal(tmp_path / "elsewhere", tmp_path / "other", 1.25)
    assert one.digest == other.digest


def test_a_score_does_not_depend_on_batch_mates(tiny_bundle: Path) -> None:
    answer = scorer.load(tiny_bundle)
    mates = ["word " * 500, "é", "良い", "a"] * 2
    alone = answer(["it was good"])[0]
    together = answer([*mates, "it was good"])[-1]
    assert alone.label == together.label
    assert alone.scores == pytest.approx(together.scores, abs=1e-5)


def test_a_batch_is_cut_into_forwards_of_like_length_and_answered_in_order(tiny_bundle: Path) -> None:
    answer = scorer.load(tiny_bundle)
    rng, forward, sizes = random.Random(0), answer.forward, list[tuple[int, int]]()

    def watched(encoded: Sequence[Encoded]) -> FloatArray:
        sizes.append((len(encoded), max(len(one.ids) for one in encoded)))
        return forward(encoded)

    answer.forward = watched
    texts = [" ".join(rng.choices(["good", "bad", "day", "it"], k=rng.choice([1, 2, 3, 25, 28]))) for _ in range(24)]
    encoded = answer.encode(texts)
    together, padding = answer.score_padded(encoded)
    padded = sum(count * longest for count, longest in sizes)
    assert padding == pytest.approx(1 - sum(len(one.ids) for one in encoded) / padded)
    assert len(sizes) > 1 and sum(count for count, _ in sizes) == len(texts)
    assert padded < len(texts) * max(longest for _, longest in sizes)
    for text, got in zip(texts, together, strict=True):
        assert got.scores == pytest.approx(answer([text])[0].scores, abs=1e-5)


def test_a_long_text_is_cut_and_says_so(tiny_bundle: Path) -> None:
    answer = scorer.load(tiny_bundle)
    long, short = answer(["good " * 500, "good"])
    assert long.truncated and not short.truncated
    assert len(answer.encode(["good " * 500])[0].ids) == tiny.MAX_TOKENS


@pytest.mark.parametrize("name", ["model/model.safetensors", "model/tokenizer.json", "contract.json"])
def test_one_flipped_byte_is_found_and_named(tiny_bundle: Path, tmp_path: Path, name: str) -> None:
    broken = shutil.copytree(tiny_bundle, tmp_path / "broken")
    content = bytearray((broken / name).read_bytes())
    content[len(content) // 2] ^= 1
    (broken / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"{name}.*differs.*--again"):
        scorer.load(broken)


def test_a_forged_manifest_is_caught_by_the_expected_digest(tiny_bundle: Path, tmp_path: Path) -> None:
    forged = shutil.copytree(tiny_bundle, tmp_path / "forged")
    contract = bundle.read_contract(forged)
    bundle.write_contract(forged, contract.model_copy(update={"temperature": 3.0}))
    with pytest.raises(BundleError, match="has digest"):
        scorer.load(forged, expected_digest=bundle.read_manifest(tiny_bundle).digest)


def test_weights_that_do_not_match_the_canaries_are_refused(
    tiny_bundle: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    stale = shutil.copytree(tiny_bundle, tmp_path / "stale")
    contract = bundle.read_contract(stale)
    swapped = contract.model_copy(update={"labels": ("positive", "neutral", "negative")})
    bundle.write_contract(stale, swapped)
    with pytest.raises(BundleError, match="canary"):
        scorer.load(stale)
