"""Every file that passes between stages, named once. A test holds dvc.yaml against it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PARAMS = ROOT / "params.yaml"
BEHAVIOUR = ROOT / "data/behaviour.yaml"
"""Behaviour cases, the user's own; no stage makes them."""
WORK = ROOT / ".work"
"""Unfinished work, one folder a stage and input; never an out."""

RAW = ROOT / "data/raw"
"""fetch: the rows as they came; `source.json` says from where, with each file's sha256."""
SOURCE = RAW / "source.json"

SPLITS = ROOT / "data/splits"
TRAIN = SPLITS / "train.parquet"
VAL = SPLITS / "val.parquet"
TEST = SPLITS / "test.parquet"
GOLDEN = SPLITS / "golden.parquet"
LABELS = SPLITS / "labels.json"
"""prepare: sorted list of label names."""
DATA_REPORT = SPLITS / "data_report.json"

BEST = ROOT / "artifacts/best.json"
TRIALS = ROOT / "artifacts/trials.json"

CHECKPOINT = ROOT / "artifacts/checkpoint"
HISTORY = ROOT / "artifacts/history.jsonl"

BUNDLE = ROOT / "artifacts/bundle"
PACKAGE = ROOT / "artifacts/package.json"
"""package: what fitting the temperature did, per kept runtime."""

METRICS = ROOT / "artifacts/metrics.json"
PLOTS = ROOT / "artifacts/plots"
PREDICTIONS = ROOT / "artifacts/predictions.parquet"
"""evaluate: one row per test row: row, label, predicted, one probability column per class."""

VERSION = ROOT / "artifacts/version.json"

VERIFY = ROOT / "artifacts/verify"
REPORT = VERIFY / "report.json"
REPORT_HTML = VERIFY / "report.html"
