"""Who is measured: how each service is started and asked, and the environment that it runs in."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import ratios
from registry.bundle import MODEL, VersionRef

ROOT = Path(__file__).resolve().parents[1]
CONTENDERS = ROOT / "benchmarks/contenders"
ENVIRONMENTS = ROOT / ".work/benchmarks"
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """Where a contender runs and what it serves."""

    version: VersionRef
    port: int
    python: str

    @property
    def model(self) -> str:
        """The folder that transformers loads."""
        return str(self.version.folder / MODEL)


@dataclass(frozen=True)
class Contender:
    """One service: how it is started and asked."""

    command: Callable[[Place], list[str]]
    path: str = "/predict"
    body: Callable[[list[str]], object] = lambda texts: {"texts": texts}
    requirements: str | None = None
    """None: this project's own environment."""
    environment: Callable[[Place], dict[str, str]] = field(default=lambda _: {})


def script(name: str) -> Callable[[Place], list[str]]:
    """A script of ours that takes the model's folder and a port."""
    return lambda place: [place.python, str(CONTENDERS / name), place.model, str(place.port)]


def ours(*more: str) -> Callable[[Place], list[str]]:
    """Our graph."""

    def command(place: Place) -> list[str]:
        version = place.version.model_dump_json()
        return [place.python, "-m", "benchmarks.contenders.ours", version, str(place.port), *more]

    return command


def _bentoml(place: Place) -> list[str]:
    return [place.python, "-m", "bentoml", "serve", "bentoml_service:Classifier", "-p", str(place.port), "--host", HOST]


def _infinity(place: Place) -> list[str]:
    where = ["--host", HOST, "--port", str(place.port)]
    kind = ["--engine", "torch", "--device", "cpu", "--no-bettertransformer", "--served-model-name", "model"]
    return [str(Path(place.python).parent / "infinity_emb"), "v2", "--model-id", place.model, *where, *kind]


def _mlflow(place: Place) -> list[str]:
    where = ["-h", HOST, "-p", str(place.port), "--env-manager", "local"]
    return [place.python, "-m", "mlflow", "models", "serve", "-m", str(place.version.folder.parent), *where]


CONTESTANTS: dict[str, Contender] = {
    **{name: Contender(ours("--precision", precision)) for precision, name in ratios.OURS.items()},
    ratios.TWO: Contender(ours("--precision", "int8", "--replicas", "2")),
    ratios.EMPTY: Contender(ours("--empty")),
    "LitServe": Contender(script("litserve_server.py"), requirements="litserve"),
    "BentoML": Contender(
        _bentoml,
        requirements="bentoml",
        environment=lambda place: {"MODEL_FOLDER": place.model, "BENTOML_DO_NOT_TRACK": "True"},
    ),
    "infinity": Contender(
        _infinity,
        path="/classify",
        body=lambda texts: {"model": "model", "input": texts},
        requirements="infinity",
        environment=lambda _: {"INFINITY_ANONYMOUS_USAGE_STATS": "0", "DO_NOT_TRACK": "1"},
    ),
    "mlflow models serve": Contender(
        _mlflow,
        path="/invocations",
        body=lambda texts: {"dataframe_split": {"columns": ["text"], "data": [[text] for text in texts]}},
    ),
    ratios.FASTAPI: Contender(script("fastapi_torch.py"), requirements="fastapi"),
    "Ray Serve as documented": Contender(script("ray_serve_docs.py")),
}


def environment(requirements: str | None) -> str:
    """The interpreter of a peer's environment, made when its requirements are new."""
    if requirements is None:
        return sys.executable
    wanted, folder = CONTENDERS / "requirements" / f"{requirements}.txt", ENVIRONMENTS / requirements
    python, mark = folder / "bin/python", folder / "requirements.txt"
    if not mark.exists() or mark.read_text() != wanted.read_text():
        print(f"setting up {requirements}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--progress-bar", "off", "-r", wanted], check=True)
        mark.write_text(wanted.read_text())
    return str(python)
