"""Fixtures that follow the flow: rows -> base -> checkpoint -> bundle -> version, all tiny and real."""

from pathlib import Path

import pytest
import torch

from registry.bundle import VersionRef, read_manifest
from registry.packing import seal
from tests import tiny


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tiny models gain nothing from two threads, and lose minutes to their spinning when the cores are busy."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local base model folder."""
    return tiny.base_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Path:
    """A checkpoint that tells the three labels of `tiny.rows` apart."""
    return tiny.checkpoint(tmp_path_factory.mktemp("checkpoint"), tiny_base)


@pytest.fixture(scope="session")
def tiny_bundle(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """That checkpoint, packaged with its canaries and a temperature of 1."""
    folder = tmp_path_factory.mktemp("packaged") / "bundle"
    seal(tiny_checkpoint, folder, temperature=1.0)
    return folder


@pytest.fixture(scope="session")
def tiny_version(tiny_bundle: Path) -> VersionRef:
    """A version that points at the tiny bundle, as the registry would name it."""
    return VersionRef(name="tiny", version="1", digest=read_manifest(tiny_bundle).digest, folder=tiny_bundle)
