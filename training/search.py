"""Ray Tune over the training loop: Optuna proposes, ASHA stops, one trial at a time -> the best settings.

One trial at a time also makes it repeatable: what is proposed, and who is stopped, depends on who came before, and
nobody overtakes. A killed search begins anew and proposes the same, so each score that is on the disk already is told
again at once and only what is missing is computed.
"""

import dataclasses
import itertools
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import ray.tune
import torch

from registry.files import write_text
from training import batches, checkpoint, loop, model, plan, progress
from training.batches import Rows
from training.checkpoint import State
from training.fit import PROGRESS, resources, threads_for
from training.params import Between, TrainParams, TuneParams
from training.trials import FAILED, FINISHED, STOPPED, Settings, Space, Trial, own, rounded, rung_steps, space, subset

SCORES = "scores.jsonl"
"""In the stage's unfinished work: what every trial scored at every rung."""
UNGUIDED = 4
"""Trials that Optuna draws at random before its estimates guide it; its own 10 are more than a search here has."""
EXPERIMENT = "search"
WORST = -1.0
"""What a failed trial tells ASHA and Optuna: below any macro-F1, and a number, which NaN is not."""


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
    """Try settings of `tune.space` on a part of the split `train`, each from `start`. Needs a running Ray.

    Raises SearchFailed when a setting does not fit the train branch.
    """
    contract, encode = checkpoint.load(start)[1], checkpoint.encoder(start)
    rows = batches.read(train, contract.labels, encode, limit=lambda total: subset(total, tune))
    val_rows = batches.read(val, contract.labels, encode, limit=lambda total: min(total, tune.max_val_rows))
    within = space(params, tune, len(rows))
    points, trials = _first_points(params, tune, within)
    cpus, gpu = resources(1, params.use_gpu)
    job = Job(start, work, params, tune, threads_for(cpus), trials)
    print(f"tune: {trials} trials on {len(rows)} rows, judged on {len(val_rows)}", flush=True)
    # The trial itself holds all CPUs: nothing inside it asks Ray for more, so it cannot wait for itself.
    trainable = ray.tune.with_resources(
        ray.tune.with_parameters(_try, job=job, rows=rows, val=val_rows), {"cpu": cpus, "gpu": int(gpu)}
    )
    shutil.rmtree(work / EXPERIMENT, ignore_errors=True)
    _sweep(work / SCORES)
    os.environ.update(TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0")
    numbers = itertools.count()
    tuner = ray.tune.Tuner(
        trainable,
        tune_config=ray.tune.TuneConfig(
            search_alg=_optuna(within, points, tune),
            num_samples=trials,
            time_budget_s=tune.minutes and tune.minutes * 60,
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
            trial_name_creator=lambda _: f"trial-{next(numbers):02d}",
            trial_dirname_creator=str,
        ),
        run_config=ray.tune.RunConfig(name=EXPERIMENT, storage_path=str(work), verbose=0),
    )
    results = progress.follow("tune", work / PROGRESS, tuner.fit)
    return [_trial_of(number, result, tune) for number, result in enumerate(results)]


def _first_points(params: TrainParams, tune: TuneParams, within: Space) -> tuple[list[Settings], int]:
    """What is tried first, and how many trials there are.

    A space of no more settings than there are trials is tried whole; otherwise the train branch's own settings come
    first, so that what overrides them has beaten them.
    """
    choices = [values for values in within.values() if not isinstance(values, Between)]
    mine = own(params, within)
    if len(choices) == len(within):
        grid: list[Settings] = [dict(zip(within, values, strict=True)) for values in itertools.product(*choices)]
        if len(grid) <= tune.trials:
            return sorted(grid, key=lambda settings: settings != mine), len(grid)
    return [mine] if mine else [], tune.trials


def _optuna(within: Space, points: list[Settings], tune: TuneParams) -> "ray.tune.search.Searcher":
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return OptunaSearch(
        {
            name: ray.tune.loguniform(values.low, values.high)
            if isinstance(values, Between)
            else ray.tune.choice(list(values))
            for name, values in within.items()
        },
        metric="score",
        mode="max",
        points_to_evaluate=points or None,
        sampler=optuna.samplers.TPESampler(seed=tune.seed, n_startup_trials=UNGUIDED),
    )


def _try(config: Mapping[str, Any], job: Job, rows: Rows, val: Rows) -> None:
    """One trial: Ray Train in this very process, so that it holds no more than the trial does."""
    settings, name = rounded(config), str(ray.tune.get_context().get_trial_name())
    torch.set_num_threads(job.threads)
    model.quiet()
    ray.train.torch.TorchTrainer(
        lambda: _learn(name, settings, job, rows, val),
        scaling_config=ray.train.ScalingConfig(num_workers=0, use_gpu=torch.cuda.is_available()),
        run_config=ray.train.RunConfig(name=name, storage_path=str(job.work)),
    ).fit()


def _learn(name: str, settings: Settings, job: Job, rows: Rows, val: Rows) -> None:
    """Train for one pass and tell Tune the score at every rung; there Tune ends the trial, or lets it go on."""
    rung = 0
    for known in _known(job.work / SCORES, settings):
        ray.tune.report(known)
        rung = known["rung"]
        if rung == job.tune.rungs or known["failed"]:
            return
    fixed = {"epochs": 1, "seed": job.tune.seed, "metric": "macro_f1", "mode": "max", "patience": job.tune.rungs}
    params = TrainParams.model_validate({**job.params.model_dump(), **settings, **fixed})
    net, _ = checkpoint.load(job.start)
    if torch.cuda.is_available() and params.use_gpu is not False:
        net.to("cuda")
    whole = plan.whole(len(rows), params)
    at = rung_steps(whole.steps, job.tune)
    judged = dataclasses.replace(whole, score_after=frozenset(at))
    number = int(name.removeprefix("trial-")) + 1
    what = f"trial {number} of {job.trials} ({', '.join(f'{name} {value:g}' for name, value in settings.items())})"
    file, told = job.work / PROGRESS, rung
    rung = 0
    try:
        for moment in loop.train(net, loop.optimizer_of(net, params), rows, val, params, judged, State()):
            step = moment.state.step
            progress.note(file, {"what": f"{what}, ", "step": step, "steps": whole.steps, "train_loss": moment.loss})
            while moment.scores and rung < len(at) and at[rung] == step:
                rung += 1
                if rung > told:
                    score = moment.scores["val_macro_f1"]
                    progress.note(file, {"said": f"{what}: macro-F1 {score:.4f} after {step} of {whole.steps} steps"})
                    _tell(job, settings, rung, rung=rung, steps=step, score=score)
    except loop.Diverged as error:
        progress.note(file, {"said": f"{what}: {error}"})
        _tell(job, settings, rung + 1, rung=rung, steps=at[rung - 1] if rung else 0, score=WORST, failed=str(error))


def _sweep(scores: Path) -> None:
    """Take away a last line that was cut off: what it told is computed again."""
    if scores.exists():
        whole = scores.read_bytes().rpartition(b"\n")[0]
        write_text(scores, whole.decode() + "\n" if whole else "")


def _known(scores: Path, settings: Settings) -> list[dict[str, Any]]:
    """What a killed search was told of these settings, rung by rung."""
    found = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()] if scores.exists() else []
    return [one["told"] for one in found if one["settings"] == settings]


def _tell(job: Job, settings: Settings, asha_rung: int, *, failed: str | None = None, **told: Any) -> None:
    said = {"resource": job.tune.reduction_factor ** (asha_rung - 1), **told, "failed": failed}
    progress.note(job.work / SCORES, {"settings": settings, "told": said})
    ray.tune.report(said)


def _trial_of(number: int, result: Any, tune: TuneParams) -> Trial:
    told = result.metrics or {}
    failed = told.get("failed") or (str(result.error).strip().splitlines()[-1] if result.error else None)
    rung = int(told.get("rung", 0))
    return Trial(
        trial=f"{number:02d}",
        settings=rounded(result.config),
        rung=rung,
        steps=int(told.get("steps", 0)),
        score=None if failed or not rung else float(told["score"]),
        status=f"{FAILED}: {failed}" if failed else FINISHED if rung == tune.rungs else STOPPED,
    )
