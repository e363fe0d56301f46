"""What the stages before wrote down about a bundle, and what the champion answers to the same rows -> evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from pipeline import paths
from registry.contract import Prediction
from registry.errors import Refused
from registry.evidence import Bin, Champion, Changed, ClassSeen, Offline, SliceSeen
from registry.files import read_json
from training.keys import key_of, split_of
from training.params import DataParams

ROUNDING = 1e-6
"""How exactly `evaluate` writes its numbers down."""
EXAMPLES, EXAMPLE_CHARACTERS = 12, 200


class StaleOutputs(Refused):
    """Two outputs that are not of the same run."""


@dataclass(frozen=True)
class Answered:
    """The test split with the bundle's own answers; all of the same length and order."""

    texts: list[str]
    truth: list[str]
    slices: list[str | None]
    answers: list[Prediction]


def golden_texts() -> list[str]:
    """The golden rows' texts. Raises StaleOutputs when there is none."""
    texts: list[str] = pq.read_table(paths.GOLDEN, columns=["text"])["text"].to_pylist()
    if not texts:
        raise StaleOutputs(f"{paths.GOLDEN} holds no rows, so nothing can be verified; run dvc repro --force prepare.")
    return texts


def answered(labels: Sequence[str], runtime: str) -> Answered:
    """The test split and this runtime's predictions side by side. Raises StaleOutputs when they are not of one run."""
    test = pq.read_table(paths.TEST, columns=["text", "label", "slice", "row"]).to_pydict()
    answers = _of_runtime(runtime)
    columns = [answers.get(f"p_{index}", []) for index in range(len(labels))]
    if answers["row"] != test["row"] or any(len(column) != len(test["row"]) for column in columns):
        raise _stale()
    scores = [dict(zip(labels, row, strict=True)) for row in zip(*columns, strict=True)]
    given = zip(answers["predicted"], scores, strict=True)
    predictions = [Prediction(label, named[label], named, truncated=False) for label, named in given]
    return Answered(test["text"], test["label"], test["slice"], predictions)


def _of_runtime(runtime: str) -> dict[str, list[Any]]:
    table = pq.read_table(paths.PREDICTIONS)
    if "runtime" not in table.column_names:
        raise _stale()
    found: dict[str, list[Any]] = table.filter(pc.field("runtime") == runtime).to_pydict()
    return found


def offline(labels: tuple[str, ...], runtime: str, rows: Answered) -> Offline:
    """What `evaluate` measured on this runtime. Raises StaleOutputs when metrics.json is of another run."""
    metrics = read_json(paths.METRICS)
    if runtime not in metrics["runtimes"]:
        raise _stale()
    measured, majority, tfidf = metrics["runtimes"][runtime], *(metrics["baselines"][n] for n in ("majority", "tfidf"))
    right = sum(truth == answer.label for truth, answer in zip(rows.truth, rows.answers, strict=True))
    if abs(right / len(rows.truth) - measured["accuracy"]) > ROUNDING:
        raise _stale()
    return Offline(
        source=read_json(paths.RAW / "source.json")["source"],
        labels=labels,
        rows=len(rows.truth),
        accuracy=measured["accuracy"],
        macro_f1=measured["macro_f1"],
        calibration_error=measured["calibration_error"],
        majority_accuracy=majority["accuracy"],
        majority_macro_f1=majority["macro_f1"],
        tfidf_accuracy=tfidf["accuracy"],
        tfidf_macro_f1=tfidf["macro_f1"],
        classes={name: ClassSeen(f1=c["f1"], support=c["support"]) for name, c in measured["classes"].items()},
        slices={n: SliceSeen(accuracy=s["accuracy"], support=s["support"]) for n, s in measured["slices"].items()},
        reliability=tuple(Bin.model_validate(one) for one in measured["reliability"]),
        confusion=tuple(map(tuple, measured["confusion"])),
        top_scores=tuple(answer.score for answer in rows.answers),
    )


def against(
    digest: str,
    its_labels: tuple[str, ...],
    its_answers: Sequence[str],
    settings: Mapping[str, Any],
    labels: tuple[str, ...],
    rows: Answered,
) -> Champion:
    """The champion and the candidate on the test rows that both can know and the champion was not trained on.

    `settings`: what the champion's run was made with; the key alone decides a split, so they say which texts it saw.
    """
    trained_on = _trained_on(settings)
    both = sorted({*its_labels, *labels})
    kept = [
        row
        for row, (text, truth) in enumerate(zip(rows.texts, rows.truth, strict=True))
        if truth in its_labels and not (trained_on and split_of(key_of(text, trained_on.seed), trained_on) != "test")
    ]
    return Champion(
        digest=digest,
        its_labels=its_labels,
        labels=tuple(both),
        truth=tuple(both.index(rows.truth[row]) for row in kept),
        ours=tuple(both.index(rows.answers[row].label) for row in kept),
        theirs=tuple(both.index(its_answers[row]) for row in kept),
        slices=tuple(rows.slices[row] for row in kept),
        examples=tuple(_changed(rows, its_answers, kept)),
        left_out=len(rows.texts) - len(kept),
        training_known=trained_on is not None,
    )


def _changed(rows: Answered, its_answers: Sequence[str], kept: Sequence[int]) -> list[Changed]:
    found = [
        Changed(
            text=rows.texts[row][:EXAMPLE_CHARACTERS],
            truth=rows.truth[row],
            theirs=its_answers[row],
            ours=rows.answers[row].label,
        )
        for row in kept
        if its_answers[row] != rows.answers[row].label
    ]
    return sorted(found, key=lambda one: one.theirs != one.truth)[:EXAMPLES]


def _trained_on(settings: Mapping[str, Any]) -> DataParams | None:
    """How the champion's rows were split; None when its run does not say."""
    names = ("seed", "val_fraction", "test_fraction")
    given = {name: settings.get(f"data.{name}") for name in names}
    try:
        # As logged they are text, which a lax reading turns into numbers.
        return DataParams.model_validate(
            {"source": "-", "text_column": "-", "label_column": "-", **given}, strict=False
        )
    except ValidationError:
        return None


def _stale() -> StaleOutputs:
    return StaleOutputs(
        f"{paths.METRICS}, {paths.PREDICTIONS} and {paths.TEST} are not of one run; run dvc repro evaluate."
    )
