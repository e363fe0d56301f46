"""Stage 7: the bundle becomes a version in MLflow, with all that is known about it. One bundle, one version."""

import argparse
import json
import os
import sys
from typing import Any

from pipeline import paths, stage
from pipeline.params import load, read
from registry import lineage
from registry.files import read_json, write_json
from registry.params import RegistryParams
from registry.registering import register, restore
from registry.runs import Record
from registry.versions import open_registry
from serving.graph import graph_digest
from serving.params import ServeParams

# The branches that made the bundle; how it is served and judged is not a matter of the run.
BRANCHES = ("data", "tune", "train", "package")


def main(argv: list[str]) -> None:
    """Register the bundle and write version.json. With --again: first put lost or changed bytes back."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.register", description=__doc__)
    parser.add_argument("--again", action="store_true", help="restore the registered copy from artifacts/bundle")
    again = parser.parse_args(argv).again
    registry = open_registry(paths.ROOT, load("registry", RegistryParams))
    if again:
        wrong = restore(registry, paths.BUNDLE)
        print(f"register: restored, since {wrong}" if wrong else "register: the registered copy is whole", flush=True)
    version = register(registry, paths.BUNDLE, _record())
    baseline = registry.known_baseline(version.digest)
    write_json(
        paths.VERSION,
        {
            "name": version.name,
            "digest": version.digest,
            "baseline_digest": baseline.digest if baseline else None,
            "graph_digest": graph_digest(load("serve", ServeParams)),
        },
    )
    print(
        f"register: version {version.version} of {version.name} ({version.digest}) in {registry.home.shown}", flush=True
    )


def _record() -> Record:
    tree = read()
    commit, changed = lineage.git_state(paths.ROOT)
    return Record(
        base=str(tree["train"]["base"]),
        params={branch: tree[branch] for branch in BRANCHES},
        history=_lines(),
        metrics=read_json(paths.METRICS),
        data=read_json(paths.SOURCE),
        data_report=read_json(paths.DATA_REPORT),
        commit=commit,
        changed=changed,
        files=(paths.METRICS, paths.PLOTS, paths.TRIALS, paths.BEST, paths.DATA_REPORT, paths.PACKAGE, paths.HISTORY),
        experiment=os.environ.get("DVC_EXP_NAME") or None,
    )


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in paths.HISTORY.read_text(encoding="utf-8").splitlines() if line]


if __name__ == "__main__":
    stage.run("register", lambda: main(sys.argv[1:]))
