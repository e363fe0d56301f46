"""What a search tries, and which trial was best; pure."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ValidationError

from registry.errors import Refused
from training.params import TrainParams, TuneParams

Settings = dict[str, float | int]

FINISHED, STOPPED, FAILED = "finished", "stopped early", "failed"


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
        raise SearchFailed(f"no trial came to a score; change tune.space, or set tune.enabled to false:\n{reasons}")
    top = max(trial.rung for trial in sound)
    return max((trial for trial in sound if trial.rung == top), key=lambda trial: trial.score or 0.0)


def subset(total: int, tune: TuneParams) -> int:
    """How many train rows the trials see."""
    return min(total, max(math.ceil(total * tune.rows_fraction), tune.min_rows))


def candidates(params: TrainParams, tune: TuneParams, rows: int) -> list[Settings]:
    """A seeded sample of the grid, without repeats, in the order listed; batches are cut to the rows there are.

    The order counts: ASHA lets the first trial go on whatever it scores, and is harder on those that come later.

    Raises SearchFailed naming the settings that the train branch refuses.
    """
    space = tune.space.named()
    found: dict[tuple[float | int, ...], Settings] = {}
    for values in itertools.product(*space.values()):
        settings: Settings = dict(zip(space, values, strict=True))
        if "batch_size" in settings and settings["batch_size"] > rows:
            settings["batch_size"] = max(rows // params.num_workers, 1) * params.num_workers
        found.setdefault(tuple(settings.values()), settings)
    grid = list(found.values())
    chosen = np.random.default_rng(tune.seed).permutation(len(grid))[: tune.trials]
    tried = [grid[place] for place in sorted(chosen)]
    for settings in tried:
        try:
            TrainParams.model_validate({**params.model_dump(), **settings})
        except ValidationError as error:
            faults = "; ".join(fault["msg"] for fault in error.errors())
            raise SearchFailed(f"tune.space: {settings} does not fit the train branch: {faults}") from error
    return tried


def rung_steps(steps: int, tune: TuneParams) -> list[int]:
    """After how many of the steps of one pass each rung stands: 1/9, 1/3 and all of them, say."""
    factor, rungs = tune.reduction_factor, tune.rungs
    return [math.ceil(steps / factor ** (rungs - rung)) for rung in range(1, rungs + 1)]
