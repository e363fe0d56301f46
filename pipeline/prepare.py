"""Stage 2: data/raw -> data/splits, losslessly, by key."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline import paths, stage
from pipeline.cluster import RayParams, cluster
from pipeline.params import load
from registry.files import new_folder, read_json, write_json
from training.data_report import DataRefused, judge, report
from training.params import DataParams
from training.rows import READERS
from training.splits import split_files, write_golden

PULSE_S = 10


def main() -> None:
    """Read the raw rows, refuse what cannot be trained on, write the splits and what was counted."""
    params = load("data", DataParams)
    with cluster(load("ray", RayParams)):
        prepare(paths.RAW, paths.SPLITS, params)


def prepare(raw: Path, splits: Path, params: DataParams) -> None:
    """Make the folder `splits` from the files in `raw`; needs Ray. Raises DataRefused, and then writes nothing."""
    if not (raw / paths.SOURCE.name).is_file():
        raise DataRefused(f"{raw} holds no rows yet; run `python -m pipeline.fetch`, or `dvc repro`, which does")
    names = [file["path"] for file in read_json(raw / paths.SOURCE.name)["files"]]
    files = {name: raw / name for name in names if Path(name).suffix.lower() in READERS}
    print(f"reading {', '.join(files)}", flush=True)
    with _pulse(), new_folder(splits) as fresh:
        tally = split_files(files, params, fresh)
        judge(tally)
        labels = sorted(tally.classes)
        golden_rows = write_golden(fresh / paths.TEST.name, fresh / paths.GOLDEN.name, labels)
        found = report(tally, golden_rows, params)
        write_json(fresh / paths.LABELS.name, labels)
        write_json(fresh / paths.DATA_REPORT.name, found)
    _tell(found)


def _tell(found: dict[str, Any]) -> None:
    rows = found["rows"]
    print(f"{rows['in']:,} rows came in, {rows['dropped']:,} dropped", flush=True)
    for why, drop in found["dropped"].items():
        print(f"  dropped {drop['rows']:,}: {why} ({', '.join(drop['examples'])})")
    print(f"train {rows['train']:,}, val {rows['val']:,}, test {rows['test']:,} (golden {rows['golden']:,})")
    for label, of_class in found["classes"].items():
        print(f"  {label}: {of_class['train']:,} / {of_class['val']:,} / {of_class['test']:,}")
    print(
        f"texts on more than one row: {found['repeats']['texts']:,}, with two labels: {found['conflicts']['texts']:,}"
    )
    for warning in found["warnings"]:
        print(f"warning: {warning}")


@contextlib.contextmanager
def _pulse() -> Iterator[None]:
    """A line every PULSE_S, so that long work does not look hung."""
    done = threading.Event()

    def beat() -> None:
        beats = 0
        while not done.wait(PULSE_S):
            beats += 1
            print(f"still preparing after {beats * PULSE_S} s", flush=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    stage.run("prepare", main)
