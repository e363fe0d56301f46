"""Ray Tune over the training loop: ASHA on a part of the rows, one trial at a time -> the best settings.

One trial at a time also makes it repeatable: ASHA decides by who came before, and nobody overtakes.
"""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray.train
import ray.train.torch
import ray.tune
import torch
from pydantic import BaseModel, ValidationError

from registry.errors import Refused
from training import batches, checkpoint, loop, model, progress
from training.batches import Rows
from training.checkpoint import State
from training.fit import PROGRESS, resources, threads_for
from training.params import TrainParams, TuneParams

Settings = dict[str, float | int]

EXPERIMENT = "search"
WORST = -1.0
"""What a failed trial tells ASHA: below any macro-F1, and a number, which NaN is not."""
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


@dataclass(frozen=True)
class Job:
    """What every trial is told. Plain, because it travels."""

    start: Path
    work: Path
    params: TrainParams
    tune: TuneParams
    threads: int
    trials: int


def search(start: Path, train: Path, val: Path, params: TrainParams, tune: TuneParams, work: Path) -> list[Trial]:
    """Try the settings of `tune.space` on a part of the split `train`, each from `start`. Needs a running Ray.

    Raises SearchFailed when a setting does not fit the train branch.
    """
    contract, encode = checkpoint.load(start)[1], checkpoint.encoder(start)
    rows = batches.read(train, contract.labels, encode, limit=lambda total: subset(total, tune))
    val_rows = batches.read(val, contract.labels, encode, limit=lambda total: min(total, tune.max_val_rows))
    tried = candidates(params, tune, len(rows))
    cpus, gpu = resources(1, params.use_gpu)
    job = Job(start, work, params, tune, threads_for(cpus), len(tried))
    print(f"tune: {len(tried)} trials on {len(rows)} rows, judged on {len(val_rows)}", flush=True)
    # The trial itself holds all CPUs: nothing inside it asks Ray for more, so it cannot wait for itself.
    trainable = ray.tune.with_resources(
        ray.tune.with_parameters(_try, job=job, rows=rows, val=val_rows), {"cpu": cpus, "gpu": int(gpu)}
    )
    os.environ.update(TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0")
    tuner = ray.tune.Tuner(
        trainable,
        param_space={"candidate": ray.tune.grid_search(list(enumerate(tried)))},
        tune_config=ray.tune.TuneConfig(
            scheduler=ray.tune.schedulers.ASHAScheduler(
                time_attr="resource",
                metric="score",
                mode="max",
                max_t=tune.reduction_factor ** (tune.rungs - 1),
                grace_period=1,
                reduction_factor=tune.reduction_factor,
            ),
            max_concurrent_trials=1,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: f"trial-{trial.config['candidate'][0]:02d}",
        ),
        run_config=ray.tune.RunConfig(name=EXPERIMENT, storage_path=str(work), verbose=0),
    )
    results = progress.follow("tune", work / PROGRESS, tuner.fit)
    return sorted((_trial_of(result, tune) for result in results), key=lambda trial: trial.trial)


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
    """A seeded sample of the grid, without repeats; batches are cut to the rows there are.

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
    tried = [grid[place] for place in np.random.default_rng(tune.seed).permutation(len(grid))[: tune.trials]]
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


def _try(config: Mapping[str, Any], job: Job, rows: Rows, val: Rows) -> None:
    """One trial: Ray Train in this very process, so that it holds no more than the trial does."""
    number, settings = config["candidate"]
    torch.set_num_threads(job.threads)
    model.quiet()
    ray.train.torch.TorchTrainer(
        lambda: _learn(number, settings, job, rows, val),
        scaling_config=ray.train.ScalingConfig(num_workers=0, use_gpu=torch.cuda.is_available()),
        run_config=ray.train.RunConfig(name=f"trial-{number:02d}", storage_path=str(job.work)),
    ).fit()


def _learn(number: int, settings: Settings, job: Job, rows: Rows, val: Rows) -> None:
    """Train for one pass and tell Tune the score at every rung; there Tune ends the trial, or lets it go on."""
    params = TrainParams.model_validate({**job.params.model_dump(), **settings, "epochs": 1, "seed": job.tune.seed})
    net, _ = checkpoint.load(job.start)
    if torch.cuda.is_available() and params.use_gpu is not False:
        net.to("cuda")
    whole = loop.plan(len(rows), params)
    at = rung_steps(whole.steps, job.tune)
    plan = loop.Plan(whole.steps_an_epoch, whole.steps, whole.warmup_steps, score_after=frozenset(at))
    what = f"trial {number + 1} of {job.trials} ({', '.join(f'{name} {value:g}' for name, value in settings.items())})"
    file, rung = job.work / PROGRESS, 0
    try:
        for moment in loop.train(net, loop.optimizer_of(net, params), rows, val, params, plan, State()):
            step = moment.state.step
            progress.note(file, {"what": f"{what}, ", "step": step, "steps": plan.steps, "train_loss": moment.loss})
            while moment.scores and rung < len(at) and at[rung] == step:
                rung += 1
                score = moment.scores["val_macro_f1"]
                progress.note(file, {"said": f"{what}: macro-F1 {score:.4f} after {step} of {plan.steps} steps"})
                _tell(job.tune, rung, rung=rung, steps=step, score=score)
    except loop.Diverged as error:
        progress.note(file, {"said": f"{what}: {error}"})
        _tell(job.tune, rung + 1, rung=rung, steps=at[rung - 1] if rung else 0, score=WORST, failed=str(error))


def _tell(tune: TuneParams, asha_rung: int, **told: Any) -> None:
    ray.tune.report({"resource": tune.reduction_factor ** (asha_rung - 1), **told})


def _trial_of(result: Any, tune: TuneParams) -> Trial:
    number, settings = result.config["candidate"]
    told = result.metrics or {}
    failed = told.get("failed") or (str(result.error).strip().splitlines()[-1] if result.error else None)
    rung = int(told.get("rung", 0))
    if failed is None and rung == 0:
        failed = "it ended without a score"
    return Trial(
        trial=f"{number:02d}",
        settings=settings,
        rung=rung,
        steps=int(told.get("steps", 0)),
        score=None if failed else float(told["score"]),
        status=f"{FAILED}: {failed}" if failed else FINISHED if rung == tune.rungs else STOPPED,
    )
