"""A champion to serve: a bundle registered, reported on and promoted, as the stages would."""

from pathlib import Path

from registry.attaching import attach
from registry.bundle import VersionRef
from registry.params import RegistryParams
from registry.promotion import promote
from registry.registering import register
from registry.versions import open_registry
from serving.graph import graph_digest
from serving.params import ServeParams
from tests import registered

ROOT = Path(__file__).resolve().parents[1]


def promoted(bundle: Path, params: RegistryParams, serve: ServeParams, page: Path) -> VersionRef:
    """Register a bundle in the environment's registry and make it champion with a passing report on this graph."""
    registry = open_registry(ROOT, params)
    version = register(registry, bundle, registered.record())
    graph = graph_digest(serve)
    report = registered.report(version.digest, graph=graph).model_copy(update={"name": params.name})
    page.write_text("<p>report</p>", encoding="utf-8")
    attach(registry, report, page)
    promote(registry, report, lambda: graph)
    return version
