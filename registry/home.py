"""Where the registry lives: an MLflow server, or a sqlite file and an artifact folder beside the DVC cache.

Resolved once, absolute, the same from any directory, clone's temporary experiment or worker.
"""

import configparser
import os
import re
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from registry.errors import MachineFault, Refused
from registry.params import REGISTRY_URIS, RegistryParams

DATABASE, ARTIFACTS, BUNDLES = "mlflow.db", "artifacts", "bundles"
PROJECT = Path(".dvc/project")
"""One committed line that names this project among those that share a DVC cache. Without it: `default`."""
PROJECT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

PATIENCE_S = 60.0
"""How long a writer waits for another one before it calls it the machine's fault."""

# Somebody else's run or experiment in the environment must not redirect ours, and is worth a word.
STRAY = (
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_REGISTRY_URI",
    "MLFLOW_ARTIFACT_URI",
)


class HomeError(Refused):
    """A tracking URI or project name that cannot be a registry's home."""


class HomeFault(MachineFault):
    """The registry's home cannot be written or reached now."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where the registry lives, and why there."""

    uri: str
    """`sqlite:////absolute/mlflow.db` or `http(s)://server`."""
    artifact_root: Path | None
    """Where a local registry keeps its artifacts; None: the server does."""
    folder: Path
    """Local folder of the lock and, for a server, of copied bundles."""
    why: str

    @property
    def database(self) -> Path | None:
        """The sqlite file of a local registry."""
        return None if self.artifact_root is None else Path(self.uri.removeprefix("sqlite:///"))

    @property
    def exists(self) -> bool:
        """Whether anything can have been registered; a server is assumed to."""
        return self.database is None or self.database.is_file()

    @property
    def shown(self) -> str:
        """The URI without a password."""
        return re.sub(r"//[^/@]*@", "//***@", self.uri)


def resolve(root: Path, params: RegistryParams) -> Home:
    """The registry's home for the project at `root`; makes nothing, asks nobody.

    Raises HomeError for a URI that MLflow no longer keeps a registry under, naming one that works.
    """
    beside_cache = dvc_cache(root).parent / "mlflow" / project(root)
    given = os.environ.get("MLFLOW_TRACKING_URI") or params.tracking_uri
    why = "MLFLOW_TRACKING_URI" if os.environ.get("MLFLOW_TRACKING_URI") else "registry.tracking_uri in params.yaml"
    if not given:
        return local(beside_cache / DATABASE, "beside the DVC cache")
    if not given.startswith(REGISTRY_URIS):
        raise HomeError(
            f"{why} is {given!r}, where MLflow 3 keeps no registry (file stores are refused since 3.13, and other "
            f"databases belong behind a server). Use http(s)://<MLflow server> or sqlite:///<path>/{DATABASE}; "
            f"with neither, sqlite:///{beside_cache / DATABASE} is used."
        )
    if given.startswith("sqlite:///"):
        return local(root / given.removeprefix("sqlite:///"), why)
    return Home(given.rstrip("/"), None, beside_cache, why)


def stray_variables(home: Home) -> list[str]:
    """One line for each variable of the environment that other MLflow programs would follow and we do not."""
    found = [name for name in STRAY if os.environ.get(name)]
    return [f"{name} is set and does not count here: the registry is {home.shown}" for name in found]


def project(root: Path) -> str:
    """The project's name among those that share a DVC cache. Raises HomeError when it cannot be a folder's name."""
    file = root / PROJECT
    name = file.read_text(encoding="utf-8").strip() if file.is_file() else "default"
    if not PROJECT_NAME.fullmatch(name):
        raise HomeError(f"{file} holds {name!r}; one line of letters, digits, '_', '.' and '-' is needed.")
    return name


def dvc_cache(root: Path) -> Path:
    """DVC's cache folder, absolute, by DVC's own rule: local, project, user, system configuration, default.

    Read here, so that a stage neither runs DVC nor needs it.
    """
    dvc = root / ".dvc"
    user = os.environ.get("DVC_GLOBAL_CONFIG_DIR") or platformdirs.user_config_dir("dvc", "iterative")
    system = os.environ.get("DVC_SYSTEM_CONFIG_DIR") or platformdirs.site_config_dir("dvc", "iterative")
    for file in (dvc / "config.local", dvc / "config", Path(user) / "config", Path(system) / "config"):
        if named := _cache_dir(file):
            return Path(os.path.abspath(file.parent / Path(named).expanduser()))
    return Path(os.path.abspath(dvc / "cache"))


def local(database: Path, why: str) -> Home:
    """A registry in this sqlite file, its artifacts beside it. Raises HomeError for a path that MLflow cannot open."""
    database = Path(os.path.abspath(database))
    if set("?#%") & set(str(database)):
        raise HomeError(
            f"{database}: MLflow cannot open a database whose path holds '?', '#' or '%'; move the project."
        )
    return Home(f"sqlite:///{database}", database.parent / ARTIFACTS, database.parent, why)


def damaged(database: Path, why: Exception) -> HomeError:
    """What to say of a file that sqlite cannot read."""
    return HomeError(
        f"the registry's database {database} is damaged: {why}. Restore it, or move it away: "
        "dvc repro then registers, verifies and promotes what stands here anew."
    )


def _cache_dir(file: Path) -> str | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(file, encoding="utf-8")
    except configparser.Error as error:
        raise HomeError(f"{file} cannot be read: {error}") from error
    return parser.get("cache", "dir", fallback="").strip("\"'") or None
