"""One MLflow run for each bundle: what made it, how training went, what it scored, on which data."""

import contextlib
import getpass
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry import lineage
from registry.contract import Contract
from registry.files import dump_json
from registry.runtimes import FP32

if TYPE_CHECKING:
    from mlflow.entities import Metric

    from registry.store import Client

LONGEST_PARAM = 500
"""Characters; every MLflow server takes so many."""
PARAMS_A_CALL, METRICS_A_CALL = 100, 1000
LONGEST_DIGEST = 32
"""Hex digits; MLflow keeps 36 characters of a dataset's digest. The whole one stands in its source."""
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,59}")


@dataclass(frozen=True, slots=True)
class Record:
    """What is known about a bundle besides its bytes: none of it answers, all of it explains."""

    base: str
    params: Mapping[str, Any]
    """Branches of params.yaml, as read."""
    history: list[dict[str, float]]
    """Lines of history.jsonl: `step` and what was measured there."""
    metrics: Mapping[str, Any]
    """metrics.json, as `evaluate` writes it."""
    data: Mapping[str, Any]
    """data/raw/source.json: where the rows came from, with their sha256."""
    data_report: Mapping[str, Any]
    commit: str
    changed: bool
    """Whether the code differed from that commit."""
    files: tuple[Path, ...]
    """Files and folders to keep beside the run."""
    experiment: str | None = None
    """The DVC experiment that it was made in."""

    @property
    def scores(self) -> Mapping[str, Any]:
        """What it scored on test in fp32, which every bundle keeps and DVC's plots show."""
        fp32: Mapping[str, Any] = self.metrics["runtimes"][FP32]
        return fp32


@contextlib.contextmanager
def recording(client: "Client", experiment_id: str, name: str, tags: Mapping[str, str]) -> Iterator[str]:
    """A run's id. The run ends FINISHED, FAILED after an exception, KILLED after a signal."""
    run_id = client.create_run(experiment_id, run_name=name, tags=dict(tags)).info.run_id
    status = "KILLED"
    try:
        yield run_id
        status = "FINISHED"
    except Exception:
        status = "FAILED"
        raise
    finally:
        client.set_terminated(run_id, status)


def tags_of(record: Record) -> dict[str, str]:
    """Tags that MLflow's pages show under their own headings, and the versions of what ran."""
    return {
        "mlflow.user": user(),
        "mlflow.source.name": "python -m pipeline.register",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": record.commit,
        "git_commit": record.commit,
        "git_changed": str(record.changed).lower(),
        **({"experiment": record.experiment} if record.experiment else {}),
        **lineage.versions(),
    }


def user() -> str:
    """Who runs this, for tags and the journal."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "unknown"


def log(client: "Client", run_id: str, record: Record, contract: Contract) -> None:
    """Write params, history, metrics, the dataset and the files of a record into a run."""
    from mlflow.entities import Param

    params = [Param(key, _short(value)) for key, value in _flat(record.params).items()]
    params += [Param(f"used.{key}", _short(value)) for key, value in _flat(contract.training).items()]
    for start in range(0, len(params), PARAMS_A_CALL):
        client.log_batch(run_id, params=params[start : start + PARAMS_A_CALL])
    metrics = [*_history(record.history), *_final(record.metrics)]
    for start in range(0, len(metrics), METRICS_A_CALL):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS_A_CALL])
    _log_dataset(client, run_id, record)
    client.log_text(
        run_id, dump_json(dict(zip(safe_names(contract.labels), contract.labels, strict=True))), "labels.json"
    )
    for path in record.files:
        if path.is_dir():
            client.log_artifacts(run_id, str(path), path.name)
        elif path.is_file():
            client.log_artifact(run_id, str(path))


def link(client: "Client", run_id: str, model_id: str) -> None:
    """Say that this run made this model."""
    from mlflow.entities import LoggedModelOutput

    client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])


def safe_names(labels: tuple[str, ...]) -> list[str]:
    """A metric name for each label: itself where MLflow takes it, else its number and what is left of it."""
    return [
        label if SAFE.fullmatch(label) else f"{index:03d}_{re.sub(r'[^A-Za-z0-9_.-]+', '_', label)[:40]}".rstrip("._")
        for index, label in enumerate(labels)
    ]


def _history(lines: list[dict[str, float]]) -> "Iterator[Metric]":
    from mlflow.entities import Metric

    # MLflow also plots over time; the order of the steps is all that we know of it.
    now_ms = int(time.time() * 1000) - len(lines)
    for index, line in enumerate(lines):
        for name, value in line.items():
            if name != "step":
                yield Metric(name, float(value), now_ms + index, int(line["step"]))


def _final(metrics: Mapping[str, Any]) -> "Iterator[Metric]":
    from mlflow.entities import Metric

    now_ms = int(time.time() * 1000)
    named: dict[str, float] = {}
    for runtime, scores in metrics["runtimes"].items():
        plain = {name: value for name, value in scores.items() if isinstance(value, int | float)}
        named |= {f"test_{name}": value for name, value in plain.items() if runtime == FP32}
        named |= {f"{runtime}/{name}": value for name, value in plain.items()}
        for group in ("classes", "slices"):
            parts = scores.get(group, {})
            for safe, part in zip(safe_names(tuple(parts)), parts.values(), strict=True):
                named |= {f"{runtime}/{group}/{safe}/{name}": value for name, value in part.items()}
    for baseline, scores in metrics["baselines"].items():
        named |= {f"baselines/{baseline}/{name}": value for name, value in scores.items()}
    named |= {f"rows/{split}": count for split, count in metrics["rows"].items()}
    yield from (Metric(name, float(value), now_ms, 0) for name, value in named.items() if value is not None)


def _log_dataset(client: "Client", run_id: str, record: Record) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = Dataset(
        name=Path(str(record.data["source"])).name[:200] or "data",
        digest=str(record.data["sha256"])[:LONGEST_DIGEST],
        source_type="local",
        source=json.dumps({"uri": record.data["source"], "sha256": record.data["sha256"]}),
        profile=json.dumps(record.data_report, ensure_ascii=False),
    )
    client.log_inputs(run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_PARAM else text[: LONGEST_PARAM - 1] + "…"
