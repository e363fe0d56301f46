"""The registered version as MLflow's own tools see and run it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from registry import mlmodel, scorer
from registry.registering import register
from registry.versions import Registry
from tests import registered

ASK = """
import json, sys
import mlflow, pandas as pd
model = mlflow.pyfunc.load_model(sys.argv[1])
answers = model.predict(pd.DataFrame({"text": ["a good happy film", "bad awful day"] * 20}))
import registry
print(json.dumps({"labels": list(answers["label"]), "scores": list(answers["scores"]), "code": registry.__file__}))
"""


def test_mlflow_loads_the_version_and_answers_as_the_scorer_does_without_our_project(
    registry: Registry, tiny_bundle: Path, tmp_path: Path
) -> None:
    version = register(registry, tiny_bundle, registered.record())
    environment = os.environ | {"MLFLOW_TRACKING_URI": registry.home.uri, "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", ASK, "models:/tiny/1"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answered = json.loads(done.stdout.splitlines()[-1])
    expected = scorer.load(version.folder)(["a good happy film", "bad awful day"])
    assert answered["labels"] == [prediction.label for prediction in expected] * 20
    for got, wanted in zip(answered["scores"], expected, strict=False):
        assert got == pytest.approx(wanted.scores, abs=1e-5)
    assert Path(answered["code"]).is_relative_to(version.folder.parent), "it runs the code that came with it"


def test_the_model_says_what_goes_in_and_out_and_what_it_needs(registry: Registry, tiny_bundle: Path) -> None:
    version = register(registry, tiny_bundle, registered.record())
    folder = version.folder.parent
    text = (folder / "MLmodel").read_text(encoding="utf-8")
    assert '"name": "text"' in text and '"name": "scores"' in text
    assert "bundle:" in text and version.digest not in text
    assert str(Path(mlmodel.ROOT)) not in text, "no path of the machine that saved it"
    assert (folder / "input_example.json").is_file()
    requirements = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert {line.split("==")[0] for line in requirements} == set(mlmodel.LIBRARIES)
    assert not [line for line in requirements if "+" in line], "a local version is on no package index"
    assert not [path for path in folder.rglob("*") if path.suffix in {".pkl", ".pickle", ".pyc"}]


def test_our_own_loader_needs_no_permission_to_run_a_models_code(
    registry: Registry, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_MODEL_CODE_EXECUTION", "false")
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    version = register(registry, tiny_bundle, registered.record())
    assert registry.find(version.digest) == version
    assert scorer.load(version.folder, version.digest)(["good"])
