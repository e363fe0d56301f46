"""Every command ends with the exit code that says whose fault it was, and its message last."""

import errno
import subprocess
import sys

import pytest

from pipeline import paths, stage
from registry.errors import MachineFault, Refused


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("row 3"), stage.REFUSED),
        (MachineFault("port 8000"), stage.MACHINE),
        (OSError(errno.ENOSPC, "No space left"), stage.MACHINE),
        (MemoryError(), stage.MACHINE),
        (RuntimeError("a bug"), stage.REFUSED),
    ],
)
def test_an_error_becomes_its_exit_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise error

    with pytest.raises(SystemExit) as left:
        stage.run("prepare", work)
    assert left.value.code == code
    assert capsys.readouterr().err.splitlines()[-1].startswith("prepare: ")


def test_a_missing_input_is_named_with_the_command_that_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        stage.run("tune", lambda: print((paths.SPLITS / "of nobody.parquet").read_bytes()))
    said = capsys.readouterr().err
    assert (left.value.code, "Traceback" in said) == (stage.REFUSED, False)
    assert "of nobody.parquet" in said and said.strip().endswith("dvc repro tune")


def test_a_terminated_command_runs_its_finally_blocks() -> None:
    code = (
        "import os, signal\nfrom pipeline import stage\n"
        "def work():\n    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n    finally:\n        print('cleaned')\n"
        "stage.run('x', work)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (143, "cleaned\n")


def test_nothing_phones_home_unless_asked() -> None:
    code = "import os\nfrom pipeline import stage\nstage.run('x', lambda: print(os.environ['RAY_USAGE_STATS_ENABLED']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
