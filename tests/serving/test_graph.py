"""What the graph digest depends on, and what it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from registry.closure import import_closure
from serving import front, graph
from serving.graph import graph_digest
from serving.params import ServeParams

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The served files in another folder, which `graph_digest` reads instead."""
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "serving/page").iterdir()]
    for name in (*import_closure(ROOT, "serving.app"), *pages):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(graph, "__file__", str(tmp_path / "serving/graph.py"))
    return tmp_path


def test_the_same_graph_in_two_folders_has_one_digest(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = graph_digest(ServeParams())
    monkeypatch.undo()
    assert elsewhere == graph_digest(ServeParams())
    assert elsewhere.startswith("sha256:")


@pytest.mark.parametrize(
    "name", ["serving/replica.py", "serving/haproxy.py", "registry/scorer.py", "serving/page/page.js"]
)
def test_a_changed_file_is_another_graph(copy: Path, name: str) -> None:
    before = graph_digest(ServeParams())
    (copy / name).write_bytes((copy / name).read_bytes() + b"\n")
    assert graph_digest(ServeParams()) != before


def test_code_that_does_not_serve_is_not_in_it(copy: Path) -> None:
    before = graph_digest(ServeParams())
    for name in ("serving/probe.py", "pipeline/serve.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("other")
    assert graph_digest(ServeParams()) == before


def test_every_dial_and_every_variable_of_serve_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {graph_digest(params) for params in (ServeParams(), ServeParams(max_batch_size=16))}
    digests.add(graph_digest(ServeParams(num_gpus=1)))
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "0")
    digests.add(graph_digest(ServeParams()))
    assert len(digests) == 4


def test_what_serve_gives_its_own_processes_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = graph_digest(ServeParams())
    monkeypatch.setenv("RAY_SERVE_INTERNAL_DEPLOYMENT_NAME", "Ingress")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    for place in front.PLACES:
        monkeypatch.setenv(place, "somewhere")
    assert graph_digest(ServeParams()) == before


def test_it_needs_neither_serve_nor_torch() -> None:
    code = (
        "import sys; from serving.graph import graph_digest; from serving.params import ServeParams; "
        "print(graph_digest(ServeParams())); assert not {'ray', 'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == graph_digest(ServeParams())
