"""What every command does around its work: exit codes, signals, no phoning home, messages that stand last."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType

from pipeline import paths
from registry.errors import MachineFault, Refused

DONE, REFUSED, USAGE, MACHINE = 0, 1, 2, 3

# Nothing phones home and no library draws bars over our lines, unless the user's own variable says so.
QUIET = {
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
MADE = ("data", "artifacts")
"""Folders whose files are stages' outs."""
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def run(name: str, work: Callable[[], None]) -> None:
    """Do `work` as the command `name` and exit as docs/ARCHITECTURE.md says: 0, 1, 2 or 3, the message last."""
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        work()
    except Refused as error:
        _leave(name, "refused", error, REFUSED)
    except (MachineFault, MemoryError) as error:
        _leave(name, "the machine's fault, a retry can help", error, MACHINE)
    except KeyboardInterrupt:
        _leave(name, "stopped", "interrupted by you; outputs of earlier stages are kept", 128 + signal.SIGINT)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            _leave(name, "the machine's fault, a retry can help", error, MACHINE)
        if isinstance(error, FileNotFoundError) and any(str(paths.ROOT / folder) in str(error) for folder in MADE):
            _leave(name, "refused", f"{error}; make what it needs: dvc repro {name}", REFUSED)
        traceback.print_exc()
        _leave(name, "failed", f"{type(error).__name__}: {error} (the trace is above)", REFUSED)


def _leave(name: str, how: str, why: object, code: int) -> None:
    sys.stdout.flush()
    print(f"{name}: {how}: {why}", file=sys.stderr, flush=True)
    sys.exit(code)


def _terminate(signum: int, _frame: FrameType | None) -> None:
    # SystemExit, so that every finally and context manager on the way out runs.
    sys.exit(128 + signum)
