"""python -m pipeline rollback: the alias `champion` back to an earlier verified version."""

import argparse

from pipeline import paths
from pipeline.params import load
from pipeline.reverify import PAGE, reverify
from registry.alias import moved_by_hand
from registry.attaching import attach
from registry.params import RegistryParams
from registry.promotion import NOTHING, Unverified, rollback
from registry.versions import open_registry
from serving.graph import graph_digest
from serving.params import ServeParams


def main(argv: list[str]) -> None:
    """Move the alias to --to, or to the champion before this one, and write why into the journal.

    A version that passed in another graph only is verified in today's first.
    """
    parser = argparse.ArgumentParser(prog="python -m pipeline rollback", description=__doc__)
    parser.add_argument("--to", metavar="VERSION", help="a version number; without it the champion before this one")
    parser.add_argument("--reason", required=True, help="why; kept in the journal")
    parser.add_argument("--force", action="store_true", help="without asking whether it works in today's graph")
    arguments = parser.parse_args(argv)
    if not arguments.reason.strip():
        parser.error("--reason must say why")
    registry = open_registry(paths.ROOT, load("registry", RegistryParams))
    if by_hand := moved_by_hand(registry):
        print(f"rollback: {by_hand}", flush=True)
    graph = graph_digest(load("serve", ServeParams))
    try:
        done = rollback(registry, arguments.to, graph, arguments.reason, arguments.force)
    except Unverified as unverified:
        if unverified.earlier is None:
            raise
        print(f"rollback: version {unverified.version} passed in another graph; verifying it in today's", flush=True)
        attach(registry, reverify(unverified.version, unverified.earlier), PAGE)
        done = rollback(registry, arguments.to, graph, arguments.reason, force=False)
    print(f"rollback: {done}", flush=True)
    if not done.startswith(NOTHING):
        print("rollback: dvc repro will not promote the replaced version again; restart `make serve` to serve this one")
