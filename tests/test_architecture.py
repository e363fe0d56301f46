"""The one-way doors: who may import whom, where each heavy library lives, what each stage depends on."""

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipeline import paths
from registry.closure import PACKAGES, import_closure
from training.params import TrainParams

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT = {
    "registry": set(),
    "training": {"registry"},
    "serving": {"registry"},
    "pipeline": {"registry", "training", "serving"},
}
HOMES = {
    "mlflow": ("registry/store.py", "registry/runs.py", "registry/mlmodel.py", "registry/pyfunc.py"),
    "fastapi": ("serving/",),
    "ray.serve": ("serving/",),
    "ray.train": ("training/",),
    "ray.tune": ("training/",),
    "ray.data": ("training/",),
    "ruamel": ("pipeline/params.py",),
    "yaml": (),
}
# The stages by name, in order, with what each may be started as.
STAGES = ("fetch", "prepare", "tune", "train", "package", "evaluate", "register", "verify", "promote")
# What a stage reads that no import shows: the graph digest hashes the closure of serving.app.
DIGESTED = {"register", "verify", "promote"}
# It only names files; test_paths_and_dvc_yaml_name_the_same_files holds it instead.
EXEMPT = {"pipeline/paths.py"}


def sources() -> list[Path]:
    """Our modules."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    """Dotted names that a module imports, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def stages() -> dict[str, Any]:
    """The stages of dvc.yaml."""
    stages: dict[str, Any] = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    return stages


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        ours = {name.split(".")[0] for name in imports(path)} & set(PACKAGES)
        illegal = ours - MAY_IMPORT[package] - {package}
        assert not illegal, (
            f"{path.relative_to(ROOT)} imports {sorted(illegal)}; {package}/ may only import "
            f"{sorted(MAY_IMPORT[package]) or 'nothing of ours'}. Move the shared code to registry/ or pass it in."
        )


@pytest.mark.parametrize("library", HOMES)
def test_each_heavy_library_has_its_home(library: str) -> None:
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        uses = any(found == library or found.startswith(f"{library}.") for found in imports(path))
        assert not uses or name.startswith(HOMES[library] or ("nowhere",)), f"{name} imports {library}"


def test_every_library_that_we_import_is_a_stated_dependency() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[\[=<>]", line)[0].replace("-", "_").replace(".yaml", "").lower() for line in stated}
    names = {{"scikit_learn": "sklearn"}.get(n, n) for n in names}
    roots = {name.split(".")[0] for path in sources() for name in imports(path)}
    assert roots - set(sys.stdlib_module_names) - set(PACKAGES) <= names


def test_ray_is_started_in_one_place() -> None:
    assert [p.name for p in sources() if "ray.init(" in p.read_text(encoding="utf-8")] == ["cluster.py"]


def test_package_folders_have_empty_inits() -> None:
    for package in PACKAGES:
        assert (ROOT / package / "__init__.py").read_bytes() == b""


def test_every_module_says_what_it_is() -> None:
    for path in sources():
        if path.name != "__init__.py":
            doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            assert doc, f"{path} has no docstring"
            assert len(doc.splitlines()) <= 8, f"{path} has a long docstring"


def test_dvc_yaml_has_the_stages_in_order() -> None:
    assert tuple(stages()) == STAGES
    assert all(stage["cmd"] == f"python -m pipeline.{name}" for name, stage in stages().items())


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_exactly_the_modules_it_imports(name: str) -> None:
    closure = set(import_closure(ROOT, f"pipeline.{name}"))
    if name in DIGESTED:
        closure |= set(import_closure(ROOT, "serving.app"))
    code = {dep for dep in stages()[name].get("deps", []) if dep.endswith(".py")}
    if name != "fetch":  # always runs and has no deps to go stale
        assert code == closure - EXEMPT


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_that_can_be_skipped_depends_on_the_branches_it_loads(name: str) -> None:
    modules = [ROOT / path for path in import_closure(ROOT, f"pipeline.{name}") if path.startswith("pipeline/")]
    loaded = {branch for path in modules for branch in re.findall(r'load\("(\w+)",', path.read_text(encoding="utf-8"))}
    stage = stages()[name]
    # Which Ray and which registry does not change what comes out.
    if not stage.get("always_changed"):
        assert {key.split(".")[0] for key in stage.get("params", [])} == loaded - {"ray", "registry"}


def test_tune_runs_anew_for_every_dial_of_train_that_a_trial_follows() -> None:
    followed = {key.removeprefix("train.") for key in stages()["tune"]["params"] if key.startswith("train.")}
    ignored = {"epochs", "patience", "metric", "mode", "checkpoint_every_steps", "max_failures"}
    assert followed == set(TrainParams.model_fields) - ignored


def test_paths_and_dvc_yaml_name_the_same_files() -> None:
    named = {
        value.relative_to(ROOT).as_posix()
        for key, value in vars(paths).items()
        if key.isupper()
        and isinstance(value, Path)
        and value not in {paths.ROOT, paths.SOURCE, paths.SPLITS, paths.WORK, paths.BEHAVIOUR}
    }
    outs: set[str] = set()
    for stage in stages().values():
        for kind in ("outs", "metrics", "plots"):
            outs |= {out if isinstance(out, str) else next(iter(out)) for out in stage.get(kind, [])}
    folders = {"artifacts/verify"}
    assert named - {"params.yaml"} - folders == outs


def test_no_out_is_spelt_with_a_dot_slash() -> None:
    assert "./" not in (ROOT / "dvc.yaml").read_text(encoding="utf-8").replace("https://", "")
