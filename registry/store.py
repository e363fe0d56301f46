"""MLflow's client for one home: explicit addresses, no telemetry, patient with a busy database."""

import functools
import logging
import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from registry.errors import MachineFault, Refused
from registry.home import PATIENCE_S, Home

if TYPE_CHECKING:  # importing mlflow starts its telemetry and costs a second: only whoever connects pays
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, model_registry

    Client: TypeAlias = MlflowClient
    Model: TypeAlias = LoggedModel
    Version: TypeAlias = model_registry.ModelVersion
    RegisteredModel: TypeAlias = model_registry.RegisteredModel

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_UV_AUTO_DETECT": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
ANSWER_S = 5.0
"""How long a server may take to say that it is there."""


class StoreError(Refused):
    """MLflow refuses to open this registry or to keep this value."""


class StoreFault(MachineFault):
    """The registry is busy or out of reach."""


def connect(home: Home) -> "Client":
    """A client for exactly this home, whatever the environment says; a local database is made on first use.

    Raises StoreFault within seconds when a server does not answer, StoreError when MLflow cannot read the database.
    """
    if home.database is None:
        _greet(home)
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    # It prints a stack trace for every attempt that meets a busy database; we retry and say one line.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)
    try:
        client = MlflowClient(tracking_uri=home.uri, registry_uri=home.uri)
        client.search_registered_models(max_results=1)
    except MlflowException as error:
        raise StoreError(f"MLflow cannot open the registry at {home.shown}: {error}") from error
    return cast("Client", _Patient(client, home))


@contextmanager
def as_default(home: Home) -> Iterator[None]:
    """MLflow's own store resolves `models:/<id>` at its default address; here that is this home."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = home.uri
    try:
        yield
    finally:
        if before is None:
            del os.environ["MLFLOW_TRACKING_URI"]
        else:
            os.environ["MLFLOW_TRACKING_URI"] = before


def fetch(home: Home, uri: str, folder: Path) -> None:
    """Copy the files below an artifact address into an empty folder. Raises StoreFault when they cannot be had."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            got = Path(download_artifacts(artifact_uri=uri, dst_path=scratch, tracking_uri=home.uri))
            shutil.copytree(got, folder, dirs_exist_ok=True)
    except (MlflowException, OSError) as error:
        raise StoreFault(f"the artifacts at {uri} cannot be copied: {error}") from error


def read_artifact(client: "Client", run_id: str, path: str) -> str | None:
    """The text of one of a run's artifacts; None when it is not there."""
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as scratch:
        try:
            return Path(client.download_artifacts(run_id, path, scratch)).read_text(encoding="utf-8")
        except (MlflowException, OSError):
            return None


class _Patient:
    """The client, with two habits: it waits for a busy database, and a lost server is the machine's fault."""

    def __init__(self, client: "Client", home: Home) -> None:
        self._client, self._home = client, home

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return functools.partial(self._patiently, method) if callable(method) else method

    def _patiently(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from mlflow.exceptions import MlflowException

        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return method(*args, **kwargs)
            except MlflowException as error:
                # A transaction that met a lock was rolled back whole, so that it can be tried again.
                busy = "database is locked" in str(error)
                if busy and time.monotonic() < deadline:
                    print(f"registry: {self._home.shown} is busy with another writer; waiting", flush=True)
                    time.sleep(0.5)
                elif busy or "API request to" in str(error):
                    raise StoreFault(f"the registry at {self._home.shown} is busy or out of reach: {error}") from error
                else:
                    raise


def _greet(home: Home) -> None:
    try:
        urllib.request.urlopen(f"{home.uri}/health", timeout=ANSWER_S).close()  # noqa: S310 - home.resolve took http(s) only
    except urllib.error.HTTPError:
        return  # it answers; whether it lets us in, MLflow will say
    except OSError as error:
        raise StoreFault(f"no MLflow server answers at {home.shown}: {error}") from error
