"""What happens to a person's project in its first weeks, each on a copy of one that already has a champion."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import tiny
from tests.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UNTRAINED = {"tune": {"enabled": False}, "train": {"lr": 1.0e-7, "epochs": 1}}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a champion."""
    project = Project.make(tmp_path_factory.mktemp("scenarios") / "origin")
    project.dvc("repro")
    project.commit("first champion")
    return project


@pytest.fixture
def project(origin: Project, tmp_path: Path) -> Project:
    """A copy in another place: what holds here also holds for a moved project."""
    return origin.copy(tmp_path / "moved")


def members(project: Project) -> dict[str, str]:
    """Text -> split."""
    return {
        text: name
        for name in ("train", "val", "test")
        for text in pq.read_table(project.folder / f"data/splits/{name}.parquet")["text"].to_pylist()
    }


def test_r05_a_moved_project_goes_on_quietly(project: Project, origin: Project) -> None:
    done = project.dvc("repro")
    assert "Running stage 'train'" not in done.stdout
    assert "Running stage 'verify'" not in done.stdout
    assert project.status()["champion"] == origin.status()["champion"]


def test_ten_rows_more_run_everything_and_move_no_old_row(project: Project) -> None:
    before = members(project)
    with (project.folder / "mine.csv").open("a", encoding="utf-8") as file:
        for row in tiny.rows(10, seed=99):
            file.write(f'"{row["text"]} indeed","{row["label"]}","{row["slice"]}"\n')
    done = project.dvc("repro", check=False)
    for stage in ("prepare", "tune", "train", "package", "evaluate", "register", "verify", "promote"):
        assert f"Running stage '{stage}'" in done.stdout, stage
    after = members(project)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 10


def test_an_untrained_model_is_refused_once_and_for_all_and_the_champion_stays(project: Project) -> None:
    champion = project.status()["champion"]
    project.edit(UNTRAINED)
    first = project.dvc("repro", check=False)
    assert first.returncode != 0
    assert "Running stage 'promote'" in first.stdout
    status = project.status()
    assert status["champion"] == champion
    assert status["report"]["gates"]["quality"] == "fail"
    report = (project.folder / "artifacts/verify/report.json").read_bytes()

    again = project.dvc("repro", check=False)
    assert again.returncode != 0
    assert "Running stage 'verify'" not in again.stdout
    assert "quality" in again.stdout + again.stderr
    assert (project.folder / "artifacts/verify/report.json").read_bytes() == report


def test_a_diverging_rate_ends_at_train_and_says_so(project: Project) -> None:
    champion = project.status()["champion"]
    project.edit({"tune": {"enabled": False}, "train": {"lr": 1.0e9}})
    done = project.dvc("repro", check=False)
    assert done.returncode != 0
    assert "train: refused" in done.stderr + done.stdout
    assert "train.lr" in done.stderr + done.stdout
    assert project.status()["champion"] == champion


def test_a_rolled_back_version_is_not_promoted_again(project: Project) -> None:
    first = project.status()["champion"]
    project.edit({"train": {"weight_decay": 0.011}})  # other bytes, as good a model
    project.dvc("repro")
    second = project.status()["champion"]
    assert second["digest"] != first["digest"]
    project.pipeline("rollback", "--reason", "a test of the way back")
    assert project.status()["champion"]["digest"] == first["digest"]

    done = project.dvc("repro", check=False)
    assert done.returncode != 0
    assert "--again" in done.stdout + done.stderr
    assert project.status()["champion"]["digest"] == first["digest"]


def test_a_deleted_database_is_built_again(project: Project) -> None:
    champion = project.status()["champion"]
    databases = list((project.folder / ".dvc").rglob("mlflow.db"))
    assert len(databases) == 1
    databases[0].unlink()
    done = project.dvc("repro")
    assert "Running stage 'train'" not in done.stdout
    again = project.status()
    assert again["champion"]["digest"] == champion["digest"]
    assert again["report"]["passed"]


def test_one_flipped_byte_of_the_registered_weights_stops_serve_verify_and_promote(project: Project) -> None:
    (weights,) = (project.folder / ".dvc/mlflow").rglob("model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    for module in ("pipeline.verify", "pipeline.promote"):
        done = project.run("python", "-m", module, check=False)
        assert done.returncode == 1, done.stderr
        assert "model.safetensors" in done.stderr
        assert "python -m pipeline.register --again" in done.stderr
    served = project.pipeline("serve", "--port", "18431", check=False)
    assert served.returncode == 1
    assert "model.safetensors" in served.stderr

    project.run("python", "-m", "pipeline.register", "--again")
    assert project.dvc("repro").returncode == 0


def test_another_batch_size_is_not_served_until_it_was_verified(project: Project) -> None:
    project.edit({"serve": {"max_batch_size": 8}})
    refused = project.pipeline("serve", "--port", "18432", check=False)
    assert refused.returncode == 1
    assert "dvc repro" in refused.stderr
    done = project.dvc("repro")
    assert "Running stage 'verify'" in done.stdout
    assert "Running stage 'train'" not in done.stdout
    status = project.status()
    assert status["champion"]["graph_digest"] == status["candidate"]["graph_digest"]


def test_bad_data_leaves_everything_as_it_was(project: Project) -> None:
    champion = project.status()["champion"]
    text = (project.folder / "mine.csv").read_text(encoding="utf-8")
    (project.folder / "mine.csv").write_text(text.replace("text,label", "text,lable", 1), encoding="utf-8")
    done = project.dvc("repro", check=False)
    assert done.returncode != 0
    assert "lable" in done.stderr + done.stdout
    assert project.status()["champion"] == champion
    (project.folder / "mine.csv").write_text(text, encoding="utf-8")
    again = project.dvc("repro")
    assert "Running stage 'train'" not in again.stdout


def test_a_two_class_file_of_300_rows_runs_through_to_a_champion(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "small")
    project.write_rows([row for row in tiny.rows(450) if row["label"] != "neutral"])
    project.dvc("repro")
    status = project.status()
    assert status["report"]["passed"]
    assert status["champion"]["digest"] == status["chain"]["bundle"]


def test_v09_without_git_and_below_another_project_it_still_runs(origin: Project, tmp_path: Path) -> None:
    project = origin.copy(tmp_path / "bare")
    shutil.rmtree(project.folder / ".git")
    project.dvc("config", "core.no_scm", "true")
    project.dvc("repro", "--force")
    status = project.status()
    assert status["report"]["passed"]
    assert status["chain"] == origin.status()["chain"]
