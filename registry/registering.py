"""A bundle becomes a version: recorded, uploaded, read back, and only then named."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from registry import bundle, copies, describe, mlmodel, orphans, runs, store
from registry.bundle import BundleError, VersionRef
from registry.copies import BUNDLE
from registry.files import new_folder
from registry.locking import writing
from registry.runs import Record
from registry.store import StoreFault
from registry.versions import DIGEST, MODEL_ID, Registry, RegistryError

if TYPE_CHECKING:
    from registry.store import Model


def register(registry: Registry, folder: Path, record: Record) -> VersionRef:
    """The version that holds this bundle: the one that already does, or a new one.

    Whatever fails or is killed on the way leaves no version; the next call begins anew and closes what was left open.
    Raises BundleError when the bundle, or the registered copy of it, is damaged; StoreFault when it came back changed.
    """
    with writing(registry.home):
        digest = bundle.check(folder).digest
        known = registry.known(digest)
        orphans.close(registry)
        if known:
            return registry.ref(known)
        return registry.version(_create(registry, folder, digest, record))


def restore(registry: Registry, folder: Path) -> str | None:
    """Put this bundle's bytes back where the registry lost or changed them; what was wrong, or None when nothing was.

    Raises RegistryError when the bundle was never registered.
    """
    with writing(registry.home):
        digest = bundle.check(folder).digest
        known = registry.known(digest)
        if known is None:
            raise RegistryError(f"{folder} ({digest}) was never registered; register it: dvc repro register.")
        copies.forget(registry.home, digest)
        try:
            registry.ref(known)
        except (BundleError, StoreFault) as error:
            _upload_bundle(registry, folder, known.tags[MODEL_ID], registry.place(known))
            registry.ref(known)
            return str(error)
    return None


def _create(registry: Registry, folder: Path, digest: str, record: Record) -> str:
    client, contract = registry.client, bundle.read_contract(folder)
    experiment_id, text = _experiment(registry), describe.bundle(digest, contract, record)
    tags = {DIGEST: digest, orphans.HOST: orphans.host(), **runs.tags_of(record), "mlflow.note.content": text}
    with runs.recording(client, experiment_id, f"{record.base} {describe.short(digest)}", tags) as run_id:
        runs.log(client, run_id, record, contract)
        model = client.create_logged_model(
            experiment_id, name=registry.name, source_run_id=run_id, tags={DIGEST: digest}, model_type="classifier"
        )
        try:
            runs.link(client, run_id, model.model_id)
            _upload(registry, folder, model, run_id)
            _read_back(registry, model, digest)
        except BaseException:
            orphans.discard(registry, model)
            raise
        client.finalize_logged_model(model.model_id, "READY")
        number = _name(registry, model, run_id, describe.tags(digest, record) | {MODEL_ID: model.model_id}, text)
        client.update_run(run_id, name=f"{registry.name} {number}: {record.base}")
    return number


def _upload(registry: Registry, folder: Path, model: "Model", run_id: str) -> None:
    size = sum(file.bytes for file in bundle.read_manifest(folder).files)
    with tempfile.TemporaryDirectory() as scratch:
        mlmodel.wrap(Path(scratch), bundle.read_contract(folder), size, BUNDLE, model.model_id, run_id)
        registry.client.log_model_artifacts(model.model_id, scratch)
    registry.client.log_model_artifacts(model.model_id, str(folder), BUNDLE)


def _upload_bundle(registry: Registry, folder: Path, model_id: str, source: str) -> None:
    if registry.home.artifact_root is not None:
        # Replaced whole, so that no stray file stays behind; a bundle with one is not a bundle.
        with new_folder(Path(source) / BUNDLE) as scratch:
            shutil.copytree(folder, scratch, dirs_exist_ok=True)
    else:
        registry.client.log_model_artifacts(model_id, str(folder), BUNDLE)


def _read_back(registry: Registry, model: "Model", digest: str) -> None:
    copies.forget(registry.home, digest)
    try:
        copies.checked(registry.home, model.artifact_location, digest)
    except BundleError as error:
        raise StoreFault(f"the bundle came back from the registry changed: {error.args[0]}") from error


def _name(registry: Registry, model: "Model", run_id: str, tags: dict[str, str], description: str) -> str:
    client = registry.client
    if registry.model() is None:
        client.create_registered_model(registry.name, description=describe.MODEL)
    with store.as_default(registry.home):
        version = client.create_model_version(
            registry.name,
            f"models:/{model.model_id}",
            run_id,
            tags=tags,
            description=description,
            model_id=model.model_id,
        )
    # MLflow's pages find the version of a model, and so of a run, by this tag.
    named = json.dumps([{"name": registry.name, "version": str(version.version)}])
    client.set_logged_model_tags(model.model_id, {"mlflow.modelVersions": named})
    return str(version.version)


def _experiment(registry: Registry) -> str:
    client, root = registry.client, registry.home.artifact_root
    found = client.get_experiment_by_name(registry.experiment)
    if found is None:
        # Without a location MLflow would put artifacts under the current directory.
        return client.create_experiment(registry.experiment, artifact_location=str(root) if root else None)
    if found.lifecycle_stage == "deleted":
        print(f"registry: the experiment {registry.experiment} had been deleted; it is restored", flush=True)
        client.restore_experiment(found.experiment_id)
    return found.experiment_id
