"""What a search may try, what became of each trial, and which was best; pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from registry.errors import Refused
from training.params import Between, TrainParams, TuneParams

Settings = dict[str, float | int]
Space = Mapping[str, Between | Sequence[float | int]]

FINISHED, STOPPED, FAILED = "finished", "stopped early", "failed"
DIGITS = 3
"""Significant digits of a rate that is searched between two bounds: more would say nothing."""


class SearchFailed(Refused):
    """A search that cannot start, or of which no trial came to a score."""


class Trial(BaseModel, frozen=True, extra="forbid"):
    """One setting and what it came to."""

    trial: str
    settings: Settings
    rung: int
    """The highest rung reached, from 1; 0: none."""
    steps: int
    """Optimizer steps until that rung."""
    score: float | None
    """Macro-F1 on validation rows at that rung."""
    status: str
    """`finished`, `stopped early`, or `failed: <why>`."""


def best_of(trials: Sequence[Trial]) -> Trial:
    """The best score among those that reached the highest rung that any did; the first of equals.

    Raises SearchFailed with each trial's reason when none has a score.
    """
    sound = [trial for trial in trials if trial.score is not None]
    if not sound:
        reasons = "\n".join(f"  {trial.trial} {trial.settings}: {trial.status}" for trial in trials)
        raise SearchFailed(
            "no trial came to a score; change tune.space, raise tune.minutes where it is set, or set tune.enabled to "
            f"false:\n{reasons}"
        )
    top = max(trial.rung for trial in sound)
    return max((trial for trial in sound if trial.rung == top), key=lambda trial: trial.score or 0.0)


def subset(total: int, tune: TuneParams) -> int:
    """How many train rows the trials see."""
    return min(total, max(math.ceil(total * tune.rows_fraction), tune.min_rows))


def space(params: TrainParams, tune: TuneParams, rows: int) -> Space:
    """What the search may choose from: batches are cut to the rows there are, and no choice is there twice.

    Raises SearchFailed naming a choice that the train branch refuses.
    """
    found: dict[str, Between | Sequence[float | int]] = {}
    for name, values in tune.space.named().items():
        if isinstance(values, Between):
            found[name] = values
            continue
        most = max(rows // params.num_workers, 1) * params.num_workers
        choices = [min(value, most) if name == "batch_size" and value > rows else value for value in values]
        for choice in choices:
            _check(params, {name: choice})
        found[name] = list(dict.fromkeys(choices))
    return found


def own(params: TrainParams, within: Space) -> Settings | None:
    """The train branch's own settings as a trial, where the space holds all of them; what a search must beat."""
    settings = {name: getattr(params, name) for name in within}
    return settings if all(_holds(within[name], value) for name, value in settings.items()) else None


def rounded(settings: Mapping[str, Any]) -> Settings:
    """Settings as they are tried and written down: a rate to DIGITS significant digits."""
    return {name: float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for name, v in settings.items()}


def rung_steps(steps: int, tune: TuneParams) -> list[int]:
    """After how many of the steps of one pass each rung stands: 1/9, 1/3 and all of them, say."""
    factor, rungs = tune.reduction_factor, tune.rungs
    return [math.ceil(steps / factor ** (rungs - rung)) for rung in range(1, rungs + 1)]


def _holds(values: Between | Sequence[float | int], value: float) -> bool:
    return values.low <= value <= values.high if isinstance(values, Between) else value in values


def _check(params: TrainParams, settings: Settings) -> None:
    try:
        TrainParams.model_validate({**params.model_dump(), **settings})
    except ValidationError as error:
        faults = "; ".join(fault["msg"] for fault in error.errors())
        raise SearchFailed(f"tune.space: {settings} does not fit the train branch: {faults}") from error
