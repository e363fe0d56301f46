"""What is verified: a registered version, in the graph of params.yaml, against the champion that it would replace."""

from dataclasses import dataclass

from pipeline import paths
from pipeline.params import load
from registry import bundle
from registry.bundle import VersionRef
from registry.contract import Contract
from registry.errors import Refused
from registry.files import read_json
from registry.params import RegistryParams
from registry.runtimes import Engine
from registry.versions import Registry, open_registry
from serving.engine import engine_of
from serving.graph import graph_digest
from serving.params import ServeParams


class StaleVersion(Refused):
    """version.json is not about what stands here or in the registry."""


@dataclass(frozen=True)
class Candidate:
    """A version with all it takes to serve and to judge it."""

    version: VersionRef
    contract: Contract
    serve: ServeParams
    graph_digest: str
    baseline: VersionRef | None
    registry: Registry

    @property
    def engine(self) -> Engine:
        """How its replicas load it."""
        return engine_of(self.version.folder, self.serve)


def local() -> Candidate:
    """What `register` made last. Raises StaleVersion when something else stands here, BundleError on changed bytes."""
    given, serve = read_json(paths.VERSION), load("serve", ServeParams)
    graph = graph_digest(serve)
    if graph != given["graph_digest"]:
        raise StaleVersion(f"{paths.VERSION} is about graph {given['graph_digest']}, here is {graph}; run dvc repro.")
    registry = open_registry(paths.ROOT, load("registry", RegistryParams))
    version = _find(registry, given["digest"])
    baseline = _find(registry, given["baseline_digest"]) if given["baseline_digest"] else None
    return Candidate(version, bundle.read_contract(version.folder), serve, graph, baseline, registry)


def numbered(number: str) -> Candidate:
    """Any version of the registry, against nobody. Raises RegistryError when there is none of this number."""
    serve, registry = load("serve", ServeParams), open_registry(paths.ROOT, load("registry", RegistryParams))
    version = registry.version(number)
    return Candidate(version, bundle.read_contract(version.folder), serve, graph_digest(serve), None, registry)


def _find(registry: Registry, digest: str) -> VersionRef:
    found = registry.find(digest)
    if found is None:
        raise StaleVersion(f"the registry {registry.home.shown} does not hold {digest}; run dvc repro register.")
    return found
