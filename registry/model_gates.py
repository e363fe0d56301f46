"""Gates on the model by itself: it is good, good everywhere, and honest about its doubts."""

import math

import numpy as np
from pydantic import JsonValue

from registry.chance import accuracy_by_guessing, calibration_error_by_chance
from registry.evidence import AboutModel, Offline
from registry.gate_params import Floors, GateParams
from registry.report import Outcome, Verdict, again

MOST_NAMED = 5
LOOK = "look at train.lr, train.epochs and data_report.json"


def quality(seen: AboutModel, limits: GateParams) -> Verdict:
    """Better than the majority class and than guessing, above the floors, and with the champion's labels."""
    model = seen.offline
    floors = limits.corpus_floors.get(model.source) or Floors(
        accuracy=limits.min_accuracy, macro_f1=limits.min_macro_f1
    )
    guessing = accuracy_by_guessing(np.array(model.confusion))
    faults = [*_quality_faults(model, guessing, floors), *_label_faults(seen, limits)]
    majority: dict[str, JsonValue] = {"accuracy": model.majority_accuracy, "macro_f1": model.majority_macro_f1}
    return Verdict(
        gate="quality",
        question="Is it better than no model, and good enough?",
        outcome="fail" if faults else "pass",
        measured={
            "accuracy": model.accuracy,
            "macro_f1": model.macro_f1,
            "tfidf_accuracy": model.tfidf_accuracy,
            "tfidf_macro_f1": model.tfidf_macro_f1,
        },
        limit={"above_majority": majority, "above_guessing": guessing, "floors": floors.model_dump()},
        why="; ".join(
            [
                f"accuracy {model.accuracy:.4f} and macro-F1 {model.macro_f1:.4f} on {model.rows:,} test rows, "
                f"the majority class {model.majority_accuracy:.4f} and {model.majority_macro_f1:.4f}",
                *faults,
            ]
        ),
        reproduce=again("quality"),
    )


def _quality_faults(model: Offline, guessing: float, floors: Floors) -> list[str]:
    faults = []
    if model.accuracy <= model.majority_accuracy or model.macro_f1 <= model.majority_macro_f1:
        faults.append(f"it is not above the majority class: {LOOK}")
    elif model.accuracy <= guessing:
        faults.append(f"the same answers dealt at random could reach an accuracy of {guessing:.4f}: {LOOK}")
    if model.accuracy < floors.accuracy or model.macro_f1 < floors.macro_f1:
        faults.append(
            f"it is below the floors of {model.source} (accuracy {floors.accuracy}, macro-F1 {floors.macro_f1}): "
            "look at train.lr and train.epochs, or change the floors in the gates branch of params.yaml"
        )
    return faults


def _label_faults(seen: AboutModel, limits: GateParams) -> list[str]:
    if seen.champion is None or limits.allow_new_labels or seen.champion.its_labels == seen.offline.labels:
        return []
    ours, theirs = set(seen.offline.labels), set(seen.champion.its_labels)
    new, gone = _few(ours - theirs), _few(theirs - ours)
    return [
        f"its labels are not the champion's (new: {new}; gone: {gone}), so clients would meet labels they do not know "
        "or miss some: give it a name of its own (registry.name), or say that it is meant "
        "(gates.allow_new_labels: true)"
    ]


def _few(labels: set[str]) -> str:
    named = sorted(labels)
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return (", ".join(map(repr, named[:MOST_NAMED])) or "none") + more


def slices(seen: AboutModel, limits: GateParams) -> Verdict:
    """The worst slice and the worst class keep their floors, where there are rows enough to judge."""
    model, least = seen.offline, limits.min_support
    by_slice = {n: s.accuracy for n, s in model.slices.items() if s.support >= least}
    by_class = {n: c.f1 for n, c in model.classes.items() if c.f1 is not None and c.support >= least}
    notes = [*_worst("slice", "accuracy", by_slice), *_worst("class", "F1", by_class)]
    faults = [*_below("slice", by_slice, limits.min_slice_accuracy), *_below("class", by_class, limits.min_class_f1)]
    thin = [f"{name!r} ({s.support})" for name, s in model.slices.items() if s.support < least]
    thin += [f"{name!r} ({c.support})" for name, c in model.classes.items() if c.support < least]
    if thin:
        notes.append(f"fewer than {least} test rows, so not judged: {', '.join(thin)}")
    return Verdict(
        gate="slices",
        question="Is it good everywhere, not only on average?",
        outcome="fail" if faults else "pass" if by_slice or by_class else "not_enough_rows",
        measured={"slice_accuracy": dict(by_slice), "class_f1": dict(by_class)},
        limit={"slice_accuracy": limits.min_slice_accuracy, "class_f1": limits.min_class_f1},
        why="; ".join(notes + faults),
        reproduce=again("slices"),
    )


def _worst(kind: str, number: str, values: dict[str, float]) -> list[str]:
    if not values:
        return []
    name = min(values, key=lambda key: (values[key], key))
    return [f"worst {kind} {name!r} with {number} {values[name]:.4f}"]


def _below(kind: str, values: dict[str, float], floor: float) -> list[str]:
    names = sorted(name for name, value in values.items() if value < floor)
    return [f"below the floor of {floor}: {kind} {name!r}, which needs more or better rows" for name in names]


def calibration(seen: AboutModel, limits: GateParams) -> Verdict:
    """The scores mean what they say; what perfect scores could show on as few rows is no fault."""
    model, limit = seen.offline, limits.max_calibration_error
    by_chance = calibration_error_by_chance(np.array(model.top_scores))
    why = f"expected calibration error {model.calibration_error:.4f} on {model.rows:,} rows, limit {limit}"
    outcome: Outcome = "pass"
    if model.calibration_error > limit and model.calibration_error > by_chance:
        outcome = "fail"
        why += f"; perfect scores would stay below {by_chance:.4f}: package.calibrate: true fits a temperature"
    elif model.calibration_error > limit:
        outcome = "not_enough_rows"
        needed = math.ceil(model.rows * (by_chance / max(limit, 1e-4)) ** 2)
        why += f"; perfect scores could reach {by_chance:.4f} on so few; it takes about {needed:,} test rows"
    return Verdict(
        gate="calibration",
        question="Is a score of 0.9 right nine times in ten?",
        outcome=outcome,
        measured={"calibration_error": model.calibration_error, "by_chance": by_chance, "rows": model.rows},
        limit=limit,
        why=why,
        reproduce=again("calibration"),
    )
