"""Ray starts in odd places, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ASK = """
from pipeline.cluster import RayParams, cluster
import ray

@ray.remote(runtime_env={"env_vars": {"ASKED": "yes"}})
def asked():
    import os
    import registry.files
    return os.environ["ASKED"], os.getcwd()

with cluster(RayParams(num_cpus=1)):
    print(ray.get(asked.remote(), timeout=60))
"""


def ask(python: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Have Ray in a process of its own and ask one task that has a runtime environment."""
    env = {**os.environ, **variables}
    env.pop("RAY_ADDRESS", None)
    return subprocess.run(
        [str(python), "-c", ASK], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )


def test_workers_come_up_when_the_environment_lies_in_a_folder_with_a_space(tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder/venv").symlink_to(sys.prefix)
    done = ask(tmp_path / "a folder/venv/bin/python")
    assert "yes" in done.stdout, done.stderr


def test_e02_a_long_temporary_folder_and_a_missing_home_do_not_matter(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    done = ask(Path(sys.executable), TMPDIR=str(long), HOME="/nonexistent")
    assert "yes" in done.stdout, done.stderr
    assert str(ROOT) in done.stdout


@pytest.mark.parametrize("address", ["127.0.0.1:9"])
def test_e01_a_dead_address_fails_within_seconds_and_names_it(address: str) -> None:
    code = "from pipeline.cluster import RayParams, cluster\nwith cluster(RayParams()): pass"
    env = {**os.environ, "RAY_ADDRESS": address}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert address in done.stderr
    assert "MachineFault" in done.stderr
