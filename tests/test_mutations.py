"""Break a good candidate in many ways, the artifact or the process and never the evidence: a gate catches each.

`pytest -m mutation -rA` lists what was broken and which gates caught it.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from ray import serve

from pipeline.cluster import RayParams, cluster
from pipeline.params import load, load_file
from registry import bundle
from registry.behaviour import Cases
from registry.bundle import VersionRef
from registry.evidence import AboutService
from registry.files import write_json
from registry.gate_params import GateParams
from registry.gates import SERVICE_GATES
from registry.packing import seal
from registry.reference import Reference
from registry.runtimes import Engine
from registry.service_evidence import Faults
from serving import app, drills, front, measure, memory
from serving.drill import Drills
from serving.graph import graph_digest
from serving.ingress import Ingress
from serving.measure import Inquiry, Rows
from serving.params import ServeParams
from serving.probe import Target
from serving.replica import Load, Replica, load_bundle
from serving.running import NotRunning, running
from tests import mutants, tiny
from tests.pipeline import prepared
from tests.project import Project
from tests.serving.conftest import free_port

pytestmark = [pytest.mark.slow, pytest.mark.mutation]

HOST, NONCE = "127.0.0.1", "this deployment"
SERVE = ServeParams(num_replicas=1, num_cpus=0.5, max_batch_size=16, max_queued_texts=256)


@dataclass(frozen=True)
class Bench:
    """One Ray, the good version, and the registered bytes in a clean process, for all mutants."""

    port: int
    version: VersionRef
    other: Path
    """Another bundle, of other weights."""
    inquiry: Inquiry
    limits: GateParams


@dataclass(frozen=True)
class Mutant:
    """What is broken, and which gates must say so."""

    caught_by: set[str]
    load: Callable[[Bench], Load] = lambda _: load_bundle
    ingress: type[Any] = Ingress
    replica: type[Any] = Replica
    serve: ServeParams = SERVE
    nonce: str = NONCE
    timeout_s: float = 40


def forward(change: mutants.Change) -> Callable[[Bench], Load]:
    """A replica whose forward is changed."""
    return lambda _: mutants.in_forward(change)


PROCESS = {
    "labels swapped": Mutant({"behaviour", "parity"}, forward(mutants.labels_swapped)),
    "batch results shifted by one": Mutant({"parity"}, forward(mutants.shifted_by_one)),
    "results of the wrong shape": Mutant({"contract", "parity", "throughput"}, forward(mutants.wrong_shape)),
    "another temperature": Mutant({"parity"}, forward(mutants.another_temperature)),
    "padding mask forgotten": Mutant({"parity"}, forward(mutants.mask_forgotten)),
    "half precision": Mutant({"parity"}, forward(mutants.half_precision)),
    "dropout left on": Mutant({"parity"}, lambda _: mutants.dropout_left_on),
    "stale weights": Mutant({"parity"}, lambda bench: _stale(bench)),
    "slow model": Mutant({"latency"}, forward(mutants.slow)),
    "truncation side": Mutant({"parity"}, ingress=mutants.CutsLeft),
    "a queue without a limit": Mutant({"overload"}, ingress=mutants.NeverFull),
    "a /health that lies": Mutant({"identity"}, ingress=mutants.LyingHealth),
    "answers in another version's name": Mutant({"identity"}, ingress=mutants.WrongVersion),
    "other serve params than verified": Mutant({"identity"}, serve=SERVE.model_copy(update={"max_batch_size": 8})),
    "an old app on the port": Mutant({"identity"}, nonce="an older deployment"),
    "one text at a time": Mutant({"batching"}, replica=mutants.OneByOne),
    "leaking memory": Mutant({"memory"}, forward(mutants.leaking)),
}
UNDER_FAULTS: dict[str, tuple[str, str, Mutant]] = {
    # Slow, so that texts are with the replica whenever it dies.
    "a death loses its texts": (
        "replica killed",
        "500",
        Mutant({"faults"}, forward(mutants.slow), ingress=mutants.LosesTheDead),
    ),
    "a /health that never doubts": (
        "replica killed",
        "/health lied",
        Mutant({"faults"}, lambda _: mutants.slow_to_load, ingress=mutants.BlindHealth),
    ),
    # Slow as well, so that no poison is alone in its batch.
    "poison for its batch-mates": ("poison", "500", Mutant({"faults"}, replica=mutants.NobodyAlone)),
}
"""What is broken -> the drill that shows it, and a word of what the gate must say."""


def _stale(bench: Bench) -> Load:
    return partial(mutants.stale_weights, other=bench.other)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Path, tiny_version: VersionRef) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("mutations")
    hasty = tiny.checkpoint(folder / "hasty", tiny.base_model(folder / "base"), steps=100, seed=3)
    seal(hasty, folder / "other", temperature=1.0)
    (folder / "behaviour.yaml").write_text(json.dumps(tiny.BEHAVIOUR), encoding="utf-8")
    long = ["day " * 40 + "good great", "fine happy " + "it " * 50]
    golden = [row["text"] for row in tiny.rows(60, seed=5)] + long
    limits = load("gates", GateParams).model_copy(update={"enough_texts_per_s": 5.0, "max_health_s": 5.0})
    port = free_port()
    with (
        Reference(tiny_version, Engine()) as reference,
        front.raised(),
        cluster(RayParams(num_cpus=4)),
    ):
        serve.start(proxy_location="HeadOnly", http_options={"host": HOST, "port": port})
        rows = Rows(golden, reference.alone(golden))
        cases, bound = load_file(Cases, folder / "behaviour.yaml"), limits.max_batch_bound
        inquiry = Inquiry(reference, rows, rows, cases, bound, say=lambda _: None)
        yield Bench(port, tiny_version, folder / "other", inquiry, limits)
        serve.shutdown()


@contextmanager
def broken_app(bench: Bench, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """The mutant up and running."""
    monkeypatch.setattr(app, "Ingress", mutant.ingress)
    monkeypatch.setattr(app, "Replica", mutant.replica)
    built = app.build(bench.version, mutant.serve, nonce=mutant.nonce, verified=False, load=mutant.load(bench))
    with running(
        built, host=HOST, port=bench.port, name="mutant", route_prefix="/mutant", timeout_s=mutant.timeout_s
    ) as url:
        yield Target(
            url=url,
            app="mutant",
            version=bench.version,
            contract=bundle.read_contract(bench.version.folder),
            params=SERVE,
            graph_digest=graph_digest(SERVE),
            nonce=NONCE,
            engine=Engine(),
            headers={},
        )


def caught(bench: Bench, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The gates that fail on this mutant, with what they say."""
    for name, short in {"REPEATS": 1, "ALONE_TEXTS": 20, "LOAD_S": 1.5, "RAW_S": 0.5}.items():
        monkeypatch.setattr(measure, name, short)
    monkeypatch.setattr(memory, "MEMORY_S", 9.0)
    watched = "memory" in mutant.caught_by
    with broken_app(bench, mutant, monkeypatch) as target:
        seen = measure.measure(target, replace(bench.inquiry, memory=watched))
    # The shutdown gate has tests of its own (tests/serving/test_running.py); nobody asks it here.
    about = AboutService.model_construct(**dict(seen))
    gates = [name for name in SERVICE_GATES if name not in {"shutdown", "faults"} and (watched or name != "memory")]
    verdicts = [SERVICE_GATES[name](about, bench.limits) for name in gates]
    return {verdict.gate: verdict.why for verdict in verdicts if verdict.outcome == "fail"}


def test_the_unbroken_one_passes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert caught(bench, Mutant(set()), monkeypatch) == {}


@pytest.mark.parametrize("broken", PROCESS)
def test_a_broken_process_is_caught(bench: Bench, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = caught(bench, PROCESS[broken], monkeypatch)
    print(f"{broken}: caught by {', '.join(found) or 'nobody'}")
    assert set(found) >= PROCESS[broken].caught_by, found


@pytest.mark.parametrize("broken", UNDER_FAULTS)
def test_what_breaks_only_under_a_fault_is_caught(bench: Bench, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, word, mutant = UNDER_FAULTS[broken]
    if name == "poison":
        _, faulty = drills.planted(bench.version, SERVE, lambda _: False)
        mutant = replace(mutant, load=lambda _: partial(mutants.slowly, load=faulty))
    inquiry = bench.inquiry
    with broken_app(bench, mutant, monkeypatch) as target, Drills(target, inquiry.golden, 30, inquiry.bound) as loaded:
        faults = chain(drills.on_any(target, inquiry.golden.texts), drills.on_planted(target))
        held = loaded.hold(next(fault for fault in faults if fault.name == name))
    about = AboutService.model_construct(faults=Faults(rounding=0.0, drills={name: held}))
    verdict = SERVICE_GATES["faults"](about, bench.limits)
    print(f"{broken}: caught by faults, {name}: {verdict.why}")
    assert verdict.outcome == "fail" and word in verdict.why, verdict


@pytest.mark.parametrize("load", [mutants.forged_digest, mutants.another_runtime])
def test_a_replica_that_holds_something_else_never_comes_up(
    bench: Bench, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotRunning):
        caught(bench, Mutant(set(), lambda _: load, timeout_s=15), monkeypatch)


ARTIFACT: dict[str, tuple[str, Callable[[Path], None]]] = {
    "labels swapped": ("quality", lambda checkpoint: _swap_labels(checkpoint)),
    "another model's tokenizer": ("quality", lambda checkpoint: _other_tokenizer(checkpoint)),
}


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory, tiny_bundle: Path) -> Project:
    return prepared.project(tmp_path_factory.mktemp("artifacts") / "a project", tiny_bundle)


@pytest.mark.parametrize("broken", [*ARTIFACT, "temperature wrong"])
def test_a_broken_artifact_is_caught(registered: Project, tmp_path: Path, tiny_checkpoint: Path, broken: str) -> None:
    """The bundle is whole and consistent, sealed anew with its own digest and canaries: only the model is wrong."""
    gate, breaks = ARTIFACT.get(broken, ("calibration", lambda _: None))
    checkpoint = Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))
    breaks(checkpoint)
    seal(checkpoint, tmp_path / "bundle", temperature=8.0 if broken == "temperature wrong" else 1.0)
    project = registered.copy(tmp_path / "project")
    prepared.use(project, tmp_path / "bundle")
    done = project.run(sys.executable, "-m", "pipeline.verify", "--only", "quality", "calibration", check=False)
    print(f"{broken}: {done.stdout}")
    assert done.returncode == 1
    assert gate in done.stderr.splitlines()[-1], done.stdout + done.stderr


def _swap_labels(checkpoint: Path) -> None:
    contract = bundle.read_contract(checkpoint)
    swapped = contract.model_copy(update={"labels": contract.labels[::-1]})
    write_json(checkpoint / bundle.CONTRACT, swapped.model_dump(mode="json"))


def _other_tokenizer(checkpoint: Path) -> None:
    file = checkpoint / "tokenizer.json"
    words = [word for of_label in tiny.WORDS.values() for word in of_label]
    text = file.read_text(encoding="utf-8")
    for word, other in zip(words, [*words[4:], *words[:4]], strict=True):
        text = text.replace(f'"{word}"', f'"@{other}"')
    file.write_text(text.replace('"@', '"'), encoding="utf-8")
