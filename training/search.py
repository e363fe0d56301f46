"""Ray Tune over the training loop: ASHA on a part of the rows, one trial at a time -> the best settings.

One trial at a time also makes it repeatable: ASHA decides by who came before, and nobody overtakes.
"""

import dataclasses
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

from training import batches, checkpoint, loop, model, plan, progress
from training.batches import Rows
from training.checkpoint import State
from training.fit import PROGRESS, resources, threads_for
from training.params import TrainParams, TuneParams
from training.trials import FAILED, FINISHED, STOPPED, Settings, Trial, candidates, rung_steps, subset

EXPERIMENT = "search"
WORST = -1.0
"""What a failed trial tells ASHA: below any macro-F1, and a number, which NaN is not."""


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
    # A killed search starts anew: what ASHA decides depends on all that came before.
    shutil.rmtree(work / EXPERIMENT, ignore_errors=True)
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
    fixed = {"epochs": 1, "seed": job.tune.seed, "metric": "macro_f1", "mode": "max", "patience": job.tune.rungs}
    params = TrainParams.model_validate({**job.params.model_dump(), **settings, **fixed})
    net, _ = checkpoint.load(job.start)
    if torch.cuda.is_available() and params.use_gpu is not False:
        net.to("cuda")
    whole = plan.whole(len(rows), params)
    at = rung_steps(whole.steps, job.tune)
    judged = dataclasses.replace(whole, score_after=frozenset(at))
    what = f"trial {number + 1} of {job.trials} ({', '.join(f'{name} {value:g}' for name, value in settings.items())})"
    file, rung = job.work / PROGRESS, 0
    try:
        for moment in loop.train(net, loop.optimizer_of(net, params), rows, val, params, judged, State()):
            step = moment.state.step
            progress.note(file, {"what": f"{what}, ", "step": step, "steps": whole.steps, "train_loss": moment.loss})
            while moment.scores and rung < len(at) and at[rung] == step:
                rung += 1
                score = moment.scores["val_macro_f1"]
                progress.note(file, {"said": f"{what}: macro-F1 {score:.4f} after {step} of {whole.steps} steps"})
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
