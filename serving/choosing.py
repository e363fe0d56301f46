"""Which version is served: the champion or a named one, and only as it was verified to be served."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from registry.branch import Branch
from registry.bundle import VersionRef
from registry.errors import Refused
from registry.params import RegistryParams
from registry.versions import open_registry
from serving.graph import graph_digest
from serving.params import ServeParams

ROOT = Path(__file__).resolve().parents[1]


class NotVerified(Refused):
    """The registry holds no passing report for this version served this way."""


class NoChampion(Refused):
    """Nothing has been promoted yet."""


class ServedVersion(Branch):
    """What `serve run` and `serve deploy` give to `champion`: the `args` of deploy/serve.yaml."""

    version: str | None = None
    """A registered version's number; null: the champion at the time of asking."""
    registry: RegistryParams
    serve: ServeParams
    unverified: bool = False
    """Serve it although no passing report says that it may; `/health` then says so too."""


@dataclass(frozen=True)
class Chosen:
    """A version to serve, and whether a passing report covers it."""

    version: VersionRef
    verified: bool


def choose(args: ServedVersion, environment: Mapping[str, str]) -> Chosen:
    """The version to serve, verified to be served this way. `environment`: of the processes that serve.

    Raises NoChampion, NotVerified, RegistryError, or BundleError when the registered bytes are not what they were.
    """
    registry = open_registry(ROOT, args.registry)
    version = registry.version(args.version) if args.version else registry.champion()
    if version is None and args.unverified and (known := registry.all()):
        version = registry.ref(known[-1])
    if version is None:
        raise NoChampion(f"{args.registry.name} has no champion; make one: dvc repro (registry: {registry.home.shown})")
    graph = graph_digest(args.serve, environment)
    report = registry.report(version.digest, graph)
    verified = report is not None and report.passed
    if not (verified or args.unverified):
        raise NotVerified(
            f"version {version.version} of {version.name} ({version.digest}) has no passing report for the graph that "
            f"would serve it ({graph}): the serve params, the serving code, Serve's variables (python -m serving.front "
            "prints them) or a library are not those that were verified. "
            "Verify it: dvc repro. To serve it nevertheless: python -m pipeline serve --unverified"
        )
    return Chosen(version, verified)
