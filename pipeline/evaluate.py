"""Stage 6: what the bundle, as it will serve, answers on the test split, beside two baselines. Pure."""

import json
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from pipeline import paths, stage
from registry import scorer
from registry.bundle import read_contract
from registry.contract import probabilities
from registry.files import new_folder, write_json
from registry.runtimes import FP32, Engine, kept
from training import baselines, metrics
from training.metrics import Floats, Ints
from training.scoring import logits


def main() -> None:
    """Score every kept runtime on test; write metrics.json, predictions.parquet and the plots' data."""
    torch.set_num_threads(os.cpu_count() or 1)
    train, test = (pq.read_table(path).to_pydict() for path in (paths.TRAIN, paths.TEST))
    print(f"evaluate: scoring {len(test['text']):,} test rows", flush=True)
    labels = read_contract(paths.BUNDLE).labels
    truth_B = np.array([labels.index(label) for label in test["label"]])
    names = dict.fromkeys([FP32, *(runtime.name for runtime in kept(paths.BUNDLE))])
    scores = {name: _scores(name, test["text"]) for name in names}

    report = {
        "runtimes": {
            name: {
                **_measure(scores_BC, truth_B, labels, test["slice"]),
                "agreement": _agreement(scores_BC, scores[FP32]),
            }
            for name, scores_BC in scores.items()
        },
        "baselines": _baselines(train, test, labels, truth_B),
        "rows": {"train": len(train["text"]), "test": len(test["text"])},
    }
    _write_predictions(test, labels, scores)
    _write_plots(scores[FP32], truth_B, labels)
    write_json(paths.METRICS, _rounded(report))
    _summarise(report)


def _scores(runtime: str, texts: list[str]) -> Floats:
    loaded = scorer.load(paths.BUNDLE, engine=Engine(runtime, threads=os.cpu_count() or 1))
    return probabilities(logits(loaded, texts), loaded.contract.temperature)


def _measure(scores_BC: Floats, truth_B: Ints, labels: tuple[str, ...], slices: list[str | None]) -> dict[str, Any]:
    predicted_B = scores_BC.argmax(axis=1)
    by_slice = {}
    for name in sorted({name for name in slices if name is not None}):
        rows = np.array([index for index, value in enumerate(slices) if value == name])
        by_slice[name] = {
            "accuracy": metrics.accuracy(truth_B[rows], predicted_B[rows]),
            "macro_f1": metrics.macro_f1(truth_B[rows], predicted_B[rows]),
            "support": len(rows),
        }
    return {
        "accuracy": metrics.accuracy(truth_B, predicted_B),
        "macro_f1": metrics.macro_f1(truth_B, predicted_B),
        "loss": metrics.log_loss(scores_BC, truth_B),
        "calibration_error": metrics.calibration_error(scores_BC, truth_B),
        "reliability": metrics.reliability(scores_BC, truth_B),
        "confusion": metrics.confusion(truth_B, predicted_B, len(labels)).tolist(),
        "classes": metrics.per_class(truth_B, predicted_B, labels),
        "slices": by_slice,
    }


def _agreement(scores_BC: Floats, fp32_BC: Floats) -> float:
    """Share of the rows on which it gives the label of fp32."""
    return metrics.accuracy(fp32_BC.argmax(axis=1), scores_BC.argmax(axis=1))


def _baselines(
    train: dict[str, list[str]], test: dict[str, list[str]], labels: tuple[str, ...], truth_B: Ints
) -> dict[str, dict[str, float]]:
    answers = {
        "majority": baselines.majority(train["label"], len(truth_B)),
        "tfidf": baselines.tfidf(train["text"], train["label"], test["text"]),
    }
    indices = {name: np.array([labels.index(label) for label in given]) for name, given in answers.items()}
    return {
        name: {"accuracy": metrics.accuracy(truth_B, given_B), "macro_f1": metrics.macro_f1(truth_B, given_B)}
        for name, given_B in indices.items()
    }


def _write_predictions(test: dict[str, list[str]], labels: tuple[str, ...], scores: dict[str, Floats]) -> None:
    """One table for all runtimes, each with every row."""
    tables = []
    for runtime, scores_BC in scores.items():
        predicted = [labels[index] for index in scores_BC.argmax(axis=1)]
        columns: dict[str, Any] = {"runtime": [runtime] * len(predicted), "row": test["row"], "key": test["key"]}
        columns |= {"label": test["label"], "predicted": predicted}
        columns |= {f"p_{index}": np.round(scores_BC[:, index], 6) for index in range(len(labels))}
        tables.append(pa.table(columns))
    paths.PREDICTIONS.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.concat_tables(tables), paths.PREDICTIONS)


def _write_plots(scores_BC: Floats, truth_B: Ints, labels: tuple[str, ...]) -> None:
    with new_folder(paths.PLOTS) as folder:
        pairs = zip(truth_B, scores_BC.argmax(axis=1), strict=True)
        write_json(folder / "confusion.json", [{"actual": labels[t], "predicted": labels[p]} for t, p in pairs])
        bins = [{**seen, "ideal": seen["score"]} for seen in metrics.reliability(scores_BC, truth_B)]
        write_json(folder / "reliability.json", _rounded(bins))
        history = [json.loads(line) for line in paths.HISTORY.read_text(encoding="utf-8").splitlines()]
        write_json(folder / "train.json", [point for point in history if "train_loss" in point])
        write_json(folder / "val.json", [point for point in history if "val_loss" in point])


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _summarise(report: dict[str, Any]) -> None:
    for name, row in (report["runtimes"] | report["baselines"]).items():
        print(f"evaluate: {name:<12} accuracy {row['accuracy']:.4f}  macro-F1 {row['macro_f1']:.4f}")
    for name, row in report["runtimes"].items():
        error, agreement = row["calibration_error"], row["agreement"]
        print(f"evaluate: {name:<12} calibration error {error:.4f}, {agreement:.4f} of the labels as fp32")


if __name__ == "__main__":
    stage.run("evaluate", main)
