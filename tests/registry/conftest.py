"""A registry of its own for every test, with three bundles to put into it."""

import shutil
from collections import OrderedDict
from pathlib import Path

import pytest

from registry.attaching import attach
from registry.promotion import promote
from registry.registering import register
from registry.versions import Registry
from tests import registered


@pytest.fixture(scope="session")
def bundles(tiny_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Three bundles that differ."""
    folder = tmp_path_factory.mktemp("bundles")
    return (tiny_bundle, *(registered.variant(tiny_bundle, folder / f"{i}", 1.0 + i / 10) for i in (1, 2)))


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """An empty registry beside the DVC cache of a project with a space in its path."""
    # A process's MLflow keeps artifact folders by run id alone; copies of a registry share their ids.
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._artifact_repos_cache", OrderedDict())
    return registered.registry(tmp_path / "a project")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A report for people."""
    path = tmp_path / "report.html"
    path.write_text("<h1>all gates passed</h1>", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def reigning(bundles: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project in which a second version was promoted over a first, and the digests of the two."""
    root = tmp_path_factory.mktemp("reigning")
    made, page, digests = registered.registry(root), root / "report.html", []
    page.write_text("<h1>all gates passed</h1>", encoding="utf-8")
    for folder in bundles[:2]:
        baseline = digests[-1] if digests else None
        digests.append(register(made, folder, registered.record()).digest)
        report = registered.report(digests[-1], baseline=baseline)
        attach(made, report, page)
        promote(made, report, lambda: registered.GRAPH)
    return root, digests


@pytest.fixture
def champions(registry: Registry, reigning: tuple[Path, list[str]]) -> list[str]:
    """The registry becomes a copy of that project's; the two digests."""
    root, digests = reigning
    shutil.copytree(root / ".dvc/mlflow/default", registry.home.folder, dirs_exist_ok=True)
    return digests
