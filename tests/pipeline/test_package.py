"""A runtime is kept when it answers as fp32 does on validation; whatever comes of it, fp32 is packed."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import package, paths
from registry import scorer, variants
from registry.contract import Encoded, FloatArray
from registry.errors import Refused
from registry.files import read_json
from registry.params import PackageParams
from registry.runtimes import FP32, kept
from registry.scorer import Forward
from tests import tiny

INT8 = "onnx-int8"
ROWS = tiny.rows(90, seed=5)
Change = Callable[[FloatArray], FloatArray]


@pytest.fixture
def packed(tmp_path: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`package` on the tiny checkpoint under these params: its record."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "val.parquet")
    found = {"CHECKPOINT": tiny_checkpoint, "VAL": tmp_path / "val.parquet"}
    found |= {"BUNDLE": tmp_path / "bundle", "PACKAGE": tmp_path / "package.json"}
    for name, path in found.items():
        monkeypatch.setattr(paths, name, path)

    def run(**params: Any) -> dict[str, Any]:
        monkeypatch.setattr(package, "load", lambda *_: PackageParams(**params))
        package.main()
        record: dict[str, Any] = read_json(paths.PACKAGE)
        return record

    return run


def instead_of_int8(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """What is built for int8 answers on validation as `change` makes of fp32's logits."""
    build = variants.build

    def built(checkpoint: Path, runtime: str, folder: Path, threads: int) -> Forward:
        real = build(checkpoint, runtime, folder, threads)

        class Changed:
            pad_id = real.pad_id

            def __call__(self, encoded: Sequence[Encoded]) -> FloatArray:
                return change(real(encoded))

        return Changed()

    monkeypatch.setattr(variants, "build", built)


def test_a_runtime_that_answers_as_fp32_is_kept_with_what_was_measured(packed: Any) -> None:
    found = packed()["runtimes"][INT8]
    assert found["kept"] and found["agreement"] >= 0.975 and found["rows"] == len(ROWS)
    assert [one.name for one in kept(paths.BUNDLE)] == [INT8, FP32]


def test_another_limit_that_is_kept_too_makes_no_other_bundle(packed: Any) -> None:
    assert packed(min_agreement=0.9)["digest"] == packed(min_agreement=0.95, max_f1_drop=0.5)["digest"]


@pytest.mark.parametrize(
    ("limits", "word"),
    [({"min_agreement": 0.9, "max_f1_drop": 1.0}, "agreement"), ({"min_agreement": 0.0}, "macro_f1_drop")],
)
def test_a_runtime_that_misses_either_limit_is_left_out(
    packed: Any, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float], word: str
) -> None:
    instead_of_int8(monkeypatch, lambda logits_BC: np.roll(logits_BC, 1, axis=1))
    found = packed(**limits)["runtimes"][INT8]
    assert not found["kept"]
    assert found["agreement"] < 0.9 if word == "agreement" else found["macro_f1_drop"] > 0.005
    assert [one.name for one in kept(paths.BUNDLE)] == [FP32]
    assert scorer.load(paths.BUNDLE)(["it was good"])[0].label == "positive"


def test_a_model_that_cannot_be_exported_is_packed_in_fp32_and_its_record_says_why(
    packed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Forward:
        raise ValueError("no such operator\nand a page of text")

    monkeypatch.setattr(variants, "build", fails)
    found = packed()["runtimes"][INT8]
    assert found == {"kept": False, "why": "could not be built: ValueError: no such operator"}
    assert [one.name for one in kept(paths.BUNDLE)] == [FP32]


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), MemoryError(), ImportError("onnxscript")])
def test_a_fault_of_the_machine_is_no_verdict_on_the_model(
    packed: Any, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Else a full disk would be cached by DVC as a bundle without int8."""

    def fails(*_: Any) -> Forward:
        raise fault

    packed(precisions=["fp32"])
    before = read_json(paths.PACKAGE)
    monkeypatch.setattr(variants, "build", fails)
    with pytest.raises(type(fault)):
        packed()
    assert read_json(paths.PACKAGE) == before


def test_runtimes_that_agree_on_no_canary_are_refused(
    packed: Any, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = scorer.load

    def other_labels(folder: Path, *given: Any, **named: Any) -> Any:
        loaded = load(folder, *given, **named)
        if loaded.runtime == INT8:
            real = loaded.forward
            loaded.forward = lambda encoded: np.roll(real(encoded), 1, axis=1)
        return loaded

    packed(precisions=["fp32"])
    before = read_json(paths.BUNDLE / "manifest.json")
    monkeypatch.setattr(scorer, "load", other_labels)
    with pytest.raises(Refused, match=r"agree on no canary.*package\.precisions"):
        packed()
    assert read_json(paths.BUNDLE / "manifest.json") == before, "the last good bundle stays"


def test_a_canary_on_which_the_runtimes_differ_is_left_out(packed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load = scorer.load

    def otherwise_on_the_longest(folder: Path, *given: Any, **named: Any) -> Any:
        loaded = load(folder, *given, **named)
        if loaded.runtime == INT8:
            real = loaded.forward
            loaded.forward = lambda encoded: (
                np.roll(real(encoded), 1, axis=1) if len(encoded[0].ids) == tiny.MAX_TOKENS else real(encoded)
            )
        return loaded

    packed(precisions=["fp32"])
    whole = len(scorer.load(paths.BUNDLE).contract.canaries)
    with monkeypatch.context() as patched:
        patched.setattr(scorer, "load", otherwise_on_the_longest)
        packed()
    left = scorer.load(paths.BUNDLE).contract.canaries
    assert 0 < len(left) < whole
    assert all(len(canary.token_ids) < tiny.MAX_TOKENS for canary in left)
