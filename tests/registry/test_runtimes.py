"""Which runtimes a bundle keeps, which one answers, and that int8 answers as fp32 whatever its batch-mates."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from registry import scorer, variants
from registry.bundle import BundleError
from registry.contract import probabilities
from registry.files import write_json
from registry.packing import seal
from registry.runtimes import FOLDER, FP32, PARITY, Engine, NotKept, chosen, kept
from tests import tiny

INT8 = "onnx-int8"
ROOT = Path(__file__).resolve().parents[2]
TEXTS = [row["text"] for row in tiny.rows(60, seed=5)]
MATES = ["word " * 500, "é", "良い", "a"] * 2


@pytest.fixture(scope="module")
def built(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `package` builds for int8."""
    folder = tmp_path_factory.mktemp("int8")
    variants.build(tiny_checkpoint, INT8, folder, threads=1)
    write_json(folder / PARITY, {"agreement": 1.0})
    return folder


@pytest.fixture(scope="module")
def both(tiny_checkpoint: Path, built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that keeps fp32 and int8."""
    folder = tmp_path_factory.mktemp("both") / "bundle"
    seal(tiny_checkpoint, folder, temperature=1.25, kept={INT8: built})
    return folder


def test_int8_answers_as_fp32_and_is_really_another_engine(both: Path) -> None:
    exact, quick = scorer.load(both)(TEXTS), scorer.load(both, engine=Engine(INT8))(TEXTS)
    assert sum(a.label == b.label for a, b in zip(exact, quick, strict=True)) >= 59
    differences = [abs(a.scores[name] - b.scores[name]) for a, b in zip(exact, quick, strict=True) for name in a.scores]
    assert 1e-6 < max(differences) < 0.05


def test_an_int8_score_does_not_depend_on_batch_mates(both: Path) -> None:
    answer = scorer.load(both, engine=Engine(INT8))
    forward, alone = answer.forward, answer(["it was good"])[0]
    together = answer([*MATES, "it was good"])[-1]
    assert alone.scores == pytest.approx(together.scores, abs=1e-5)
    # In the very same forward too, which the scorer's cut would avoid.
    encoded = answer.encode([*MATES, "it was good"])
    mixed_BC, alone_BC = (probabilities(forward(given), 1.0) for given in (encoded, encoded[-1:]))
    assert mixed_BC[-1] == pytest.approx(alone_BC[0], abs=1e-5)


def test_two_builds_of_one_checkpoint_are_equal_bytes(tiny_checkpoint: Path, built: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_checkpoint, tmp_path / "elsewhere")
    (tmp_path / "again").mkdir()
    variants.build(tmp_path / "elsewhere", INT8, tmp_path / "again", threads=1)
    assert (tmp_path / "again/model.onnx").read_bytes() == (built / "model.onnx").read_bytes()
    for of_this_machine in (str(tmp_path), str(ROOT), sys.prefix, "stack_trace", "site-packages"):
        assert of_this_machine.encode() not in (tmp_path / "again/model.onnx").read_bytes(), of_this_machine


def test_a_changed_byte_of_a_runtime_is_another_bundle(both: Path, tmp_path: Path) -> None:
    shutil.copytree(both, tmp_path / "bundle")
    file = tmp_path / "bundle" / FOLDER / INT8 / "model.onnx"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match=r"model\.onnx differs"):
        scorer.load(tmp_path / "bundle")


def test_auto_takes_the_fastest_kept_one_of_the_device(both: Path, tiny_bundle: Path) -> None:
    assert [one.name for one in kept(both)] == [INT8, FP32]
    assert chosen(both, "auto", "cpu").name == INT8
    assert chosen(both, "auto", "cuda").name == FP32
    assert chosen(both, "fp32", "cpu").name == FP32
    assert chosen(tiny_bundle, "auto", "cpu").name == FP32
    with pytest.raises(NotKept, match=r"keeps fp32.*auto.*package\.precisions.*new version"):
        chosen(tiny_bundle, "int8", "cpu")
    with pytest.raises(NotKept, match="does not run on cuda"):
        chosen(both, "int8", "cuda")


@pytest.mark.parametrize("runtime", ["torch-bf16", "torch-fp16"])
def test_half_precision_answers_nearly_as_fp32(tiny_checkpoint: Path, tmp_path: Path, runtime: str) -> None:
    half = variants.build(tiny_checkpoint, runtime, tmp_path, threads=1)
    exact = scorer.uncalibrated(tiny_checkpoint)
    encoded = exact.encode(TEXTS)
    exact_BC, half_BC = exact.forward(encoded), half(encoded)
    assert np.mean(exact_BC.argmax(axis=1) == half_BC.argmax(axis=1)) >= 0.95
    assert half_BC.dtype == np.float32
    assert 0 < np.abs(exact_BC - half_BC).max() < 0.5
    # Why the gates allow it its rounding: batch-mates alone move it by more than they move fp32, and by less than that.
    one_BC = np.concatenate([half([one]) for one in encoded])
    moved = np.abs(probabilities(one_BC, 1.0) - probabilities(half_BC, 1.0)).max()
    assert moved < Engine(runtime, "cuda").rounding
    assert Engine(FP32).rounding == Engine(INT8).rounding == 0 < Engine(FP32, "cuda").rounding


def test_canaries_are_told_per_runtime(both: Path) -> None:
    for canary in scorer.load(both).contract.canaries:
        assert canary.scores.keys() == {FP32, INT8}
