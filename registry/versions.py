"""What is registered, and which version is trusted: the reading half of the registry. It changes nothing.

`registry.registering` makes versions, `registry.promotion` moves the champion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from registry import copies, home, journal, relocation, reports, store
from registry.bundle import VersionRef
from registry.errors import Refused
from registry.home import Home
from registry.journal import Entry, Named
from registry.params import RegistryParams
from registry.report import Report

if TYPE_CHECKING:
    from registry.store import Client, RegisteredModel, Version

CHAMPION = "champion"
DIGEST = "digest"
"""The version and run tag that holds the bundle digest."""
MODEL_ID = "model_id"
"""The version tag that holds MLflow's name of the artifacts."""


class RegistryError(Refused):
    """The registry does not hold what was asked for."""


@dataclass(frozen=True, slots=True)
class Known:
    """A registered version by its names; its bytes were not looked at."""

    name: str
    version: str
    digest: str
    run_id: str
    tags: Mapping[str, str]

    @property
    def named(self) -> Named:
        """As the journal names it."""
        return Named(version=self.version, digest=self.digest)


class Registry:
    """The versions of one registered model in one home."""

    def __init__(self, where: Home, name: str, experiment: str) -> None:
        self.home, self.name, self.experiment = where, name, experiment

    @cached_property
    def client(self) -> "Client":
        """Connected on first use, so that a project without a registry is told apart for nothing."""
        relocation.follow(self.home)
        return store.connect(self.home)

    def find(self, digest: str) -> VersionRef | None:
        """The version that holds this bundle, its bytes re-hashed. Raises BundleError when they are not these."""
        known = self.known(digest)
        return self.ref(known) if known else None

    def version(self, number: str) -> VersionRef:
        """A version by number, its bytes re-hashed. Raises RegistryError when there is none."""
        return self.ref(self.numbered(number))

    def champion(self) -> VersionRef | None:
        """The version that production follows, its bytes re-hashed; None before the first promotion."""
        known = self.known_champion()
        return self.ref(known) if known else None

    def baseline_for(self, digest: str) -> VersionRef | None:
        """Whom this digest has to beat: the champion, or, when it is the champion, whom its last promotion replaced."""
        known = self.known_baseline(digest)
        return self.ref(known) if known else None

    def all(self) -> list[Known]:
        """Every version of ours, oldest first, bytes not looked at; what others registered by hand is left out."""
        found = self.client.search_model_versions(f"name = '{self.name}'") if self.home.exists else []
        known = [_known(version) for version in found if version.status == "READY" and version.tags.get(DIGEST)]
        return sorted(known, key=lambda version: int(version.version))

    def known(self, digest: str) -> Known | None:
        """The version that carries this digest, bytes not looked at."""
        return next((known for known in self.all() if known.digest == digest), None)

    def registered(self, digest: str) -> Known:
        """As `known`. Raises RegistryError when there is none."""
        if known := self.known(digest):
            return known
        raise RegistryError(f"the registry at {self.home.shown} holds no version with {digest}: dvc repro register")

    def numbered(self, number: str) -> Known:
        """A version by number, bytes not looked at. Raises RegistryError when there is none of ours."""
        for known in self.all():
            if known.version == number:
                return known
        numbers = ", ".join(known.version for known in self.all()) or "none"
        raise RegistryError(
            f"{self.name} has no version {number} of this pipeline; there are: {numbers} (registry: {self.home.shown})"
        )

    def alias(self) -> str | None:
        """The number under the alias `champion`, whatever it is."""
        model = self.model()
        number = model.aliases.get(CHAMPION) if model else None
        return None if number is None else str(number)

    def known_champion(self) -> Known | None:
        """The version under the alias, bytes not looked at. Raises RegistryError when the alias hangs in the air."""
        number = self.alias()
        if number is None:
            return None
        try:
            return self.numbered(number)
        except RegistryError as error:
            raise RegistryError(
                f"the alias {CHAMPION} of {self.name} points to something that this pipeline cannot serve: {error} "
                "Point it to a verified version: python -m pipeline rollback --to VERSION --reason '…'"
            ) from error

    def known_baseline(self, digest: str) -> Known | None:
        """As `baseline_for`, bytes not looked at."""
        champion = self.known_champion()
        if champion is None or champion.digest != digest:
            return champion
        replaced = journal.replaced_by_promotion(self.journal(), digest)
        return self.known(replaced.digest) if replaced else None

    def moves(self) -> dict[int, Entry]:
        """Every entry of the journal by number, the one that waits for its alias included."""
        model = self.model()
        return journal.read(model.tags) if model else {}

    def journal(self) -> list[Entry]:
        """Every move of the champion that was made, oldest first, one killed after it moved the alias included."""
        alias = self.alias()
        return [entry for entry in self.moves().values() if entry.settled or entry.to.version == alias]

    def settings(self, digest: str) -> Mapping[str, str]:
        """What its run was made with, as logged: `data.seed`, `train.lr`, …; empty when the digest is not known."""
        known = self.known(digest)
        return dict(self.client.get_run(known.run_id).data.params) if known else {}

    def report(self, digest: str, graph_digest: str) -> Report | None:
        """The report on exactly this pair, when the registry holds it whole: re-read, re-hashed, re-validated."""
        known = self.known(digest)
        return reports.read(self.client, known.run_id, known.tags, digest, graph_digest) if known else None

    def passing_report(self, known: Known) -> Report | None:
        """The newest passing report on a version, whatever the graph."""
        found = [
            report
            for graph in reports.passed_in(known.tags)
            if (report := reports.read(self.client, known.run_id, known.tags, known.digest, graph))
        ]
        return max(found, key=lambda report: report.measured_at, default=None)

    def model(self) -> "RegisteredModel | None":
        """The registered model with its tags and aliases; None before the first registration."""
        found = self.client.search_registered_models(f"name = '{self.name}'") if self.home.exists else []
        return found[0] if found else None

    def ref(self, known: Known) -> VersionRef:
        """A version that can be served: a local folder that holds its bytes, re-hashed just now.

        Raises BundleError naming the file that differs, is missing or is extra.
        """
        folder = copies.checked(self.home, self.place(known), known.digest)
        return VersionRef(name=self.name, version=known.version, digest=known.digest, folder=folder)

    def place(self, known: Known) -> str:
        """Where a version's artifacts lie: a local folder or a server's address."""
        return str(self.client.get_model_version_download_uri(known.name, known.version))


def open_registry(root: Path, params: RegistryParams) -> Registry:
    """The registry of the project at `root`."""
    where = home.resolve(root, params)
    for line in home.stray_variables(where):
        print(f"registry: {line}", flush=True)
    return Registry(where, params.name, params.experiment)


def _known(version: "Version") -> Known:
    tags = dict(version.tags)
    return Known(version.name, str(version.version), tags[DIGEST], str(version.run_id), tags)
