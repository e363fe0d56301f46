"""The clean process answers what the scorer answers here, names broken bytes, and never outlives its block."""

import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from registry import scorer
from registry.bundle import BundleError, VersionRef
from registry.reference import Reference, ReferenceFault
from registry.runtimes import Engine


def test_the_clean_process_answers_as_this_one(tiny_version: VersionRef) -> None:
    texts = ["it was good", "bad \u2028 day", "これは", "word " * 300]
    here = scorer.load(tiny_version.folder)
    with Reference(tiny_version, Engine()) as reference:
        answers = reference.alone(texts)
        assert reference.labels(texts) == [one.label for one in here(texts)]
        pace = reference.pace(texts, batch_size=4, at_least_s=0.05)
        assert pace.texts_per_s > 1 and pace.matmul_flops_per_s > 1e8
        assert pace.texts_per_s == pytest.approx(4 / (pace.forward_ms / 1000))
        assert pace.forward_flops > 1e4
        assert len(reference.alone_ms(texts)) == 4
    for text, answer in zip(texts, answers, strict=True):
        expected = here([text])[0]
        assert (answer.label, answer.truncated) == (expected.label, expected.truncated)
        assert answer.scores == pytest.approx(expected.scores, abs=1e-6)
    assert not [c for c in psutil.Process().children() if "registry.reference" in " ".join(c.cmdline())]


def test_broken_bytes_are_named_with_the_remedy(tiny_version: VersionRef, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_version.folder, tmp_path / "broken")
    weights = folder / "model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    broken = tiny_version.model_copy(update={"folder": folder})
    with Reference(broken, Engine()) as reference, pytest.raises(BundleError, match=r"safetensors.*--again"):
        reference.wait_until_loaded()


def test_a_process_that_dies_is_the_machines_fault(tiny_version: VersionRef) -> None:
    with Reference(tiny_version, Engine()) as reference:
        reference.wait_until_loaded()
        (child,) = (c for c in psutil.Process().children() if "registry.reference" in " ".join(c.cmdline()))
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ReferenceFault, match="ended"):
            reference.alone(["good"])
