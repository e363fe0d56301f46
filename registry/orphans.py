"""What a killed registration leaves open: runs that seem to go on for ever, half a model on the disk."""

import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from registry.versions import DIGEST, Registry

if TYPE_CHECKING:
    from registry.store import Model

HOST = "host"
"""The run tag that says which machine's command it belongs to."""


def host() -> str:
    """The machine it is, for that tag."""
    return platform.node()


def close(registry: Registry) -> None:
    """End the runs that killed commands left open, as FINISHED where a version came of them, else as KILLED.

    To be called with the home's lock held: then nothing of ours on this machine is alive in it.
    """
    client = registry.client
    experiment = client.get_experiment_by_name(registry.experiment)
    if experiment is None:
        return
    ours = f"tags.{DIGEST} LIKE 'sha256:%' and tags.{HOST} = '{host()}' and attributes.status = 'RUNNING'"
    finished = {known.run_id for known in registry.all()}
    for run in client.search_runs([experiment.experiment_id], ours):
        run_id = run.info.run_id
        status = "FINISHED" if run_id in finished else "KILLED"
        for model in client.search_logged_models([experiment.experiment_id], f"source_run_id = '{run_id}'"):
            if status == "KILLED":
                discard(registry, model)
        client.set_terminated(run_id, status)
        print(f"registry: closed run {run_id} as {status}; its command had been killed", flush=True)


def discard(registry: Registry, model: "Model") -> None:
    """Mark a model as failed and give its disk back; nothing refers to it."""
    registry.client.finalize_logged_model(model.model_id, "FAILED")
    if registry.home.artifact_root is not None:
        shutil.rmtree(Path(model.artifact_location).parent, ignore_errors=True)
