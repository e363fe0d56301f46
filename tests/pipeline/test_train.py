"""The train stage as a command: what it leaves, how it refuses, how it goes on after kill -9."""

import json
import signal
import time
from pathlib import Path

import psutil
import pytest

from pipeline.train import SettingsError, overridden
from registry import bundle
from registry.files import read_json
from tests import tiny
from tests.pipeline import project
from training.params import TrainParams


@pytest.fixture
def made(tmp_path: Path, tiny_base: Path) -> Path:
    """A project whose path has a space and an accent (t09); trains six short epochs."""
    folder = tmp_path / "proj é 1"
    return project.make(folder, tiny_base, train={"epochs": 6, "freeze_embeddings": False, "patience": 9})


def test_it_leaves_a_checkpoint_that_explains_itself_and_nothing_else_t09(made: Path) -> None:
    project.best(made, lr=2e-3, batch_size=8)
    before = {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    code, said = project.run(made, "train")
    assert code == 0, said
    assert "train.lr: 0.002 from the search, instead of 0.003" in said
    contract = bundle.read_contract(made / "artifacts/checkpoint")
    assert contract.labels == tiny.LABELS and contract.max_tokens == 32
    told = contract.training
    assert told["lr"] == 2e-3 and told["batch_size"] == 8 and told["base"] == "models/tiny" and told["trial"] == "00"
    assert str(made) not in json.dumps(told)
    history = [json.loads(line) for line in (made / "artifacts/history.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["val_macro_f1"] for line in history if "val_loss" in line}
    assert len(scores) == 6 and scores[told["best_step"]] == max(scores.values()) == told["validation"]["macro_f1"]
    new = {path.relative_to(made) for path in made.rglob("*") if path.is_file()} - before
    unexpected = {path for path in new if path.parts[0] != "artifacts" and "__pycache__" not in path.parts}
    assert not unexpected


def test_a_diverging_rate_ends_at_train_with_the_reason_last(made: Path) -> None:
    project.best(made, lr=1e9)
    code, said = project.run(made, "train")
    assert code == 1
    last = said.strip().splitlines()[-1]
    assert last.startswith("train: refused: the loss") and "lower train.lr" in last
    assert not (made / "artifacts/checkpoint").exists()


@pytest.mark.slow
def test_after_kill_9_the_next_start_goes_on_and_ends_with_the_same_scores(made: Path, tiny_base: Path) -> None:
    dials = {"epochs": 12, "freeze_embeddings": False, "patience": 12, "checkpoint_every_steps": 5}
    for folder in (made, made.parent / "undisturbed"):
        if folder.exists():
            _change_train(folder, dials)
        else:
            project.make(folder, tiny_base, train=dials)
    with project.started(made, "train") as process:
        _wait_for(made, "step-00000020")
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert psutil.wait_procs(children, timeout=120)[1] == []  # Ray's agents look for their parent every few seconds
    assert not (made / "artifacts/checkpoint").exists()

    code, said = project.run(made, "train")
    assert code == 0 and "going on after step" in said, said
    assert project.run(made.parent / "undisturbed", "train")[0] == 0
    ours, theirs = ((folder / "artifacts/history.jsonl").read_text() for folder in (made, made.parent / "undisturbed"))
    assert ours == theirs
    assert not list((made / ".work/train").iterdir())


@pytest.mark.slow
def test_sigterm_ends_the_stage_with_its_code_and_leaves_no_process(made: Path) -> None:
    _change_train(made, {"epochs": 400})
    with project.started(made, "train") as process:
        _wait_for(made, "step-00000008")
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert list(made.glob(".work/train/*/run/step-*"))


def test_settings_that_clash_with_the_train_branch_are_refused_by_name() -> None:
    asked = TrainParams(base="x", num_workers=2)
    assert overridden(asked, {"lr": 1e-5}).lr == 1e-5
    with pytest.raises(SettingsError, match=r"batch_size 9 does not divide.*tune\.space"):
        overridden(asked, {"batch_size": 9})


def _wait_for(folder: Path, checkpoint: str) -> None:
    deadline = time.monotonic() + 120
    while not list(folder.glob(f".work/train/*/run/{checkpoint}")):
        assert time.monotonic() < deadline, "no checkpoint came"
        time.sleep(0.02)


def _change_train(folder: Path, dials: dict[str, object]) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    tree = yaml.load((folder / "params.yaml").read_text())
    tree["train"] |= dials
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(tree, file)
    assert read_json(folder / "artifacts/best.json")["settings"] == {}
