"""Things to register and to promote with: bundles that differ, records, reports, a registry that is quick to make."""

import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from registry import bundle, store
from registry.home import DATABASE, local
from registry.params import RegistryParams
from registry.report import Outcome, Report, Verdict
from registry.runs import Record
from registry.versions import Registry

PARAMS = RegistryParams(name="tiny", experiment="tests")
GRAPH, OTHER_GRAPH = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@functools.cache
def empty_database() -> Path:
    """A database with MLflow's tables and nothing in them, made once: making one takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="empty-registry-"))
    store.connect(local(folder / DATABASE, "for tests"))
    return folder / DATABASE


def registry(root: Path) -> Registry:
    """The registry of a project at `root`, in its default home."""
    where = local(root / ".dvc/mlflow/default" / DATABASE, "for tests")
    if not where.exists:
        where.folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(empty_database(), where.folder / DATABASE)
    return Registry(where, PARAMS.name, PARAMS.experiment)


def variant(original: Path, folder: Path, temperature: float) -> Path:
    """The same bundle with another temperature, hence another digest."""
    shutil.copytree(original, folder)
    contract = bundle.read_contract(folder).model_copy(update={"temperature": temperature})
    bundle.write_contract(folder, contract)
    return folder


def scores(accuracy: float = 0.8, labels: tuple[str, ...] = ("negative", "neutral", "positive")) -> dict[str, Any]:
    """metrics.json."""
    of_class = {"precision": 0.7, "recall": None, "f1": 0.65, "support": 40}
    runtime = {
        "accuracy": accuracy,
        "macro_f1": 0.7,
        "loss": 0.5,
        "calibration_error": 0.02,
        "reliability": [{"rows": 4, "score": 0.9, "accuracy": 0.8}],
        "confusion": [[1, 0], [0, 1]],
        "classes": dict.fromkeys(labels, of_class),
        "slices": {"tweets": {"accuracy": 0.8, "macro_f1": 0.7, "support": 20}},
    }
    baselines = {name: {"accuracy": 0.4, "macro_f1": 0.2} for name in ("majority", "tfidf")}
    # In the order of metrics.json, whose keys are sorted: fp32 is not the first.
    runtimes = {"onnx-int8": {**runtime, "accuracy": accuracy - 0.01}, "torch-fp32": runtime}
    return {"runtimes": runtimes, "baselines": baselines, "rows": {"train": 1000, "test": 120}}


def record(**changes: Any) -> Record:
    """What the stages would know about a bundle."""
    history = [
        {"step": 20, "epoch": 0.5, "train_loss": 1.0, "lr": 1e-4},
        {"step": 40, "epoch": 1.0, "val_loss": 0.9, "val_accuracy": 0.6, "val_macro_f1": 0.5},
        {"step": 60, "epoch": 1.5, "train_loss": 0.8, "lr": 5e-5},
    ]
    made: dict[str, Any] = {
        "base": "tiny-base",
        "params": {"data": {"source": "mine.csv"}, "train": {"lr": 1e-4, "epochs": 2}, "tune": {"space": {"lr": [1]}}},
        "history": history,
        "metrics": scores(),
        "data": {"source": "mine.csv", "sha256": "ab" * 32},
        "data_report": {"rows": 1200},
        "commit": "c" * 40,
        "changed": False,
        "files": (),
    }
    return Record(**made | changes)


def report(digest: str, baseline: str | None = None, outcome: Outcome = "pass", graph: str = GRAPH) -> Report:
    """A report of one gate."""
    why = "macro-F1 0.21 is below 0.40; train longer" if outcome == "fail" else "macro-F1 0.71 is above 0.40"
    verdict = Verdict(
        gate="quality", question="?", outcome=outcome, measured=0.7, limit=0.4, why=why, reproduce="dvc repro verify"
    )
    return Report(
        name="tiny",
        digest=digest,
        loaded_digest=digest,
        answered_digest=digest,
        graph_digest=graph,
        baseline_digest=baseline,
        verdicts=(verdict,),
        evidence={},
    )


class Killed(BaseException):
    """What a SIGKILL looks like from inside: nothing after it runs."""


class Dying:
    """A client that dies before its n-th write."""

    def __init__(self, client: Any, writes: int) -> None:
        self._client, self._left = client, writes

    def __getattr__(self, name: str) -> Any:
        if name.split("_")[0] in {"set", "update", "delete", "create", "log", "finalize"}:
            self._left -= 1
            if self._left < 0:
                self.die(name)
        return getattr(self._client, name)

    def die(self, before: str) -> None:
        """Nothing after it runs."""
        raise Killed(before)


class Killing(Dying):
    """A client that ends its whole process so."""

    def die(self, before: str) -> None:
        print(f"killed before {before}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def promote_and_be_killed(writes: int) -> None:
    """The stage promote of the project in the current folder, with SIGKILL before its n-th write."""
    from pipeline import promote

    connect = Registry.client.func
    client = functools.cached_property(lambda of: Killing(connect(of), writes))
    client.__set_name__(Registry, "client")
    Registry.client = client  # type: ignore[method-assign,assignment]
    promote.main([])


@contextmanager
def dying(of: Registry, writes: int) -> Iterator[None]:
    """The registry's client dies before its n-th write within the block; afterwards it is itself again."""
    client = of.client
    of.__dict__["client"] = Dying(client, writes)
    try:
        yield
    finally:
        of.__dict__["client"] = client
