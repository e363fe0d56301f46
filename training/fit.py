"""The loop on N workers with Ray Train -> the best checkpoint. Killed and started again, it goes on."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch

from registry.errors import MachineFault, Refused
from training import batches, checkpoint, loop, model, plan, progress
from training.checkpoint import CheckpointError, State
from training.params import TrainParams

RUN = "run"
PROGRESS = "progress.jsonl"


class WorkerLost(MachineFault):
    """A worker's process ended without a word of its own."""


@dataclass(frozen=True)
class Job:
    """What every worker is told: absolute paths, dials, threads. Plain, because it travels."""

    start: Path
    """The checkpoint folder that training starts from."""
    train: Path
    val: Path
    work: Path
    """The stage's folder of unfinished work, seen by all workers."""
    params: TrainParams
    threads: int
    """Torch's threads in each worker."""


@dataclass(frozen=True)
class Fitted:
    """What a training came to."""

    state: State
    best: Path
    """The full checkpoint of the best epoch."""


def fit(start: Path, train: Path, val: Path, params: TrainParams, work: Path) -> Fitted:
    """Train `start` on the split `train`, scored on `val`, with unfinished work in `work`. Needs a running Ray.

    A lost worker is answered by going on from the last complete checkpoint, `params.max_failures` times. Not by Ray
    Train's own `FailureConfig`, which would also repeat what a loss that is NaN has ended. Raises Diverged, WorkerLost
    when that was not enough, MachineFault when workers cannot start, and whatever else ends a worker.
    """
    left = params.max_failures
    while True:
        try:
            return _fit(start, train, val, params, work)
        except WorkerLost as lost:
            if not left:
                raise
            left -= 1
            print(f"{str(lost).split(';')[0]}; {left} more of train.max_failures are left", flush=True)


def _fit(start: Path, train: Path, val: Path, params: TrainParams, work: Path) -> Fitted:
    run = work / RUN
    checkpoint.sweep(run)
    if last := checkpoint.newest(run):
        print(f"going on after step {checkpoint.read_state(last).step}", flush=True)
    cpus, gpu = resources(params.num_workers, params.use_gpu)
    job = Job(start, train, val, work, params, threads_for(cpus))
    trainer = ray.train.torch.TorchTrainer(
        work_on,
        train_loop_config={"job": job},
        scaling_config=ray.train.ScalingConfig(
            num_workers=params.num_workers,
            use_gpu=gpu,
            resources_per_worker={"CPU": cpus, **({"GPU": 1} if gpu else {})},
        ),
        run_config=ray.train.RunConfig(
            name=RUN, storage_path=str(work), failure_config=ray.train.FailureConfig(max_failures=0)
        ),
    )
    try:
        progress.follow("train", work / PROGRESS, trainer.fit)
    except ray.train.TrainingFailedError as error:
        raise _cause(error) from error
    last = checkpoint.newest(run)
    state = checkpoint.read_state(last) if last else State()
    if state.best_step is None:
        raise CheckpointError(f"training ended without a scored checkpoint in {run}; run it again")
    return Fitted(state, checkpoint.step_folder(run, state.best_step))


def work_on(config: Mapping[str, Any]) -> None:
    """What each Ray Train worker runs."""
    job: Job = config["job"]
    context = ray.train.get_context()
    leads = context.get_world_rank() == 0
    torch.set_num_threads(job.threads)
    model.quiet()
    last = checkpoint.newest(job.work / RUN)
    net, contract = checkpoint.load(last or job.start)
    net.to(ray.train.torch.get_device())
    optimizer = loop.optimizer_of(net, job.params)
    state = checkpoint.restore(last, optimizer) if last else State()
    encode = checkpoint.encoder(job.start)
    rows, val = (batches.read(split, contract.labels, encode) for split in (job.train, job.val))
    whole = plan.whole(len(rows), job.params, keep_every=job.params.checkpoint_every_steps)
    for moment in loop.train(net, optimizer, rows, val, job.params, whole, state):
        if leads:
            _note(job.work / PROGRESS, moment, whole)
            if moment.keep:
                checkpoint.save_full(job.work / RUN, state, net, optimizer, job.start)
        if moment.scores:
            ray.train.report({"step": state.step, **moment.scores})


def threads_for(cpus: int) -> int:
    """Torch's threads: the CPUs assigned, unless the user's OMP_NUM_THREADS says otherwise."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isdigit() and int(stated) else cpus


def _note(file: Path, moment: loop.Moment, whole: plan.Plan) -> None:
    state = moment.state
    progress.note(file, {"step": state.step, "steps": whole.steps, "train_loss": moment.loss, **moment.scores})
    if moment.scores:
        epoch = state.step // whole.steps_an_epoch
        scores = ", ".join(f"{name} {value:.4f}" for name, value in moment.scores.items())
        progress.note(
            file, {"said": f"epoch {epoch}: {scores}{' (best so far)' if state.best_step == state.step else ''}"}
        )


def resources(workers: int, use_gpu: bool | str) -> tuple[int, bool]:
    """CPUs of each worker, and whether each gets a GPU. Raises MachineFault when Ray has less than is asked for."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    if use_gpu is True and gpus < workers:
        raise MachineFault(
            f"train.use_gpu is true, but Ray has {gpus} GPUs for {workers} workers; "
            "use a machine that has them, lower train.num_workers, or set train.use_gpu to auto"
        )
    cpus = [int(node.get("CPU", 0)) for node in nodes]
    for each in range(max(cpus, default=0), 0, -1):
        if sum(node // each for node in cpus) >= workers:
            return each, use_gpu is not False and gpus >= workers
    raise MachineFault(f"train.num_workers is {workers}, but Ray has {sum(cpus)} CPUs; lower it, or raise ray.num_cpus")


def _cause(error: ray.train.TrainingFailedError) -> Exception:
    """What really happened, out of Ray Train's wrapping: ours if any worker raised one of ours."""
    failures = getattr(error, "worker_failures", {}).values()
    causes: list[Exception] = [getattr(failure, "_base_exc", failure) for failure in failures]
    for cause in causes:
        if isinstance(cause, Refused | MachineFault | OSError):
            return cause
    if causes and not type(causes[0]).__module__.startswith("ray."):
        return causes[0]
    first = str(causes[0] if causes else error).splitlines()[0]
    return WorkerLost(
        f"a training worker was lost ({first}); was it killed, or is there too little memory? "
        "Run it again: it goes on from the last complete checkpoint"
    )
