"""What one worker does, top to bottom: batches, forward, loss, backward, clip, step; score, and show it to the caller.

Plain PyTorch: one process alone, or one of several that share their gradients through torch.distributed.
Shape letters: N rows, B rows of one batch on this worker, T tokens, C classes.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

from registry.errors import Refused
from training import batches
from training.batches import Batch, Rows
from training.checkpoint import State
from training.metrics import accuracy, macro_f1
from training.params import TrainParams
from training.plan import Plan

SHOW_EVERY = 20
"""Steps between two looks at the loss: often enough to see it move, seldom enough not to hold a GPU up."""
JUDGE_OVER = 100
"""Steps whose mean loss says whether training diverges; a single batch may well be unlucky."""
WORSE_THAN_GUESSING = 2.0
"""So many times the loss of guessing all classes alike (ln C) and training is beyond hope."""
SCORE_AT_ONCE = 64
"""Rows of one forward when validation rows are scored."""


class Diverged(Refused):
    """The loss left the realm of numbers or of hope."""


@dataclass(frozen=True)
class Moment:
    """What the loop shows its caller, who may write it down, keep a checkpoint, or stop listening."""

    state: State
    loss: float
    """Mean over the steps since the last moment, in nats."""
    scores: dict[str, float] = field(default_factory=dict)
    """val_loss, val_accuracy and val_macro_f1 when the validation rows were just scored."""
    keep: bool = False
    """Whether a full checkpoint is due."""


def optimizer_of(model: PreTrainedModel, params: TrainParams) -> torch.optim.Optimizer:
    """Fused AdamW; matrices decay, biases and norms do not. Freezes the token embeddings when params say so."""
    model.get_input_embeddings().weight.requires_grad_(not params.freeze_embeddings)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if weight.ndim >= 2], "weight_decay": params.weight_decay},
        {"params": [weight for weight in trained if weight.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=params.lr, fused=True)


def train(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    rows: Rows,
    val: Rows,
    params: TrainParams,
    plan: Plan,
    state: State,
) -> Iterator[Moment]:
    """Train from `state` on to the end of the plan, or until no epoch was better for `params.patience` epochs.

    `state`, model and optimizer change in place. Raises Diverged on a loss that is NaN, infinite or hopeless.
    """
    rank, workers = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    device, pad_id = next(model.parameters()).device, int(model.config.pad_token_id)
    forward = DistributedDataParallel(model) if workers > 1 else model
    unseen: list[torch.Tensor] = []
    if state.step == 0 and not state.done:
        torch.manual_seed(params.seed + rank)

    while state.step < plan.steps and not state.done:
        epoch, done_steps = divmod(state.step, plan.steps_an_epoch)
        model.train()
        for batch_rows in batches.epoch(rows.lengths, params.batch_size, params.seed, epoch)[done_steps:]:
            # one optimizer step over this worker's part of the batch
            for group in optimizer.param_groups:
                group["lr"] = params.lr * plan.lr_factor(state.step)
            optimizer.zero_grad(set_to_none=True)
            parts = batches.share(rows, batch_rows, rank, workers, pad_id, params.max_rows_at_once)
            losses = [_backward(forward, part, device, last=part is parts[-1]) for part in parts]
            torch.nn.utils.clip_grad_norm_(model.parameters(), params.clip_norm)
            optimizer.step()
            state.step += 1
            unseen.append(torch.stack(losses).sum())

            # now and then: look at the loss, score the validation rows, let the caller keep a checkpoint
            score = state.step in plan.score_after
            keep = plan.keep_every is not None and (score or state.step % plan.keep_every == 0)
            if score or keep or state.step % SHOW_EVERY == 0:
                mean = _look(unseen, state, params.lr, workers)
                if score or len(state.recent_losses) == JUDGE_OVER:
                    _despair(state, model.config.num_labels, params.lr)
                lr = params.lr * plan.lr_factor(state.step)
                state.history.append({"step": state.step, "epoch": epoch + 1, "train_loss": mean, "lr": lr})
                unseen.clear()
                scores = _score(model, val, rank, workers) if score else {}
                if score:
                    _judge(scores, state, params, epoch + 1)
                    model.train()
                yield Moment(state, mean, scores, keep)
                if state.done:
                    return
    state.done = True


def _backward(model: torch.nn.Module, part: Batch, device: torch.device, last: bool) -> torch.Tensor:
    """Add the gradients of one part of a step; its loss. Workers exchange gradients once a step, with the last."""
    waits = isinstance(model, DistributedDataParallel) and not last
    with model.no_sync() if waits else contextlib.nullcontext():  # type: ignore[operator]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits_BC = _logits(model, part, device)
        loss = cross_entropy(logits_BC.float(), part.targets_B.to(device), reduction="sum") * part.share
        loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def _logits(model: torch.nn.Module, batch: Batch, device: torch.device) -> torch.Tensor:
    """(B, T) ids to (B, C) logits."""
    mask = None if batch.mask_BT is None else batch.mask_BT.to(device)
    logits_BC: torch.Tensor = model(input_ids=batch.ids_BT.to(device), attention_mask=mask).logits
    return logits_BC


def _look(unseen: list[torch.Tensor], state: State, lr: float, workers: int) -> float:
    """Mean loss over the steps not looked at yet, all workers' parts together. Raises Diverged naming the step."""
    losses = torch.stack(unseen)
    if workers > 1:
        dist.all_reduce(losses)
    values: list[float] = (losses.cpu().double() / workers).tolist()
    first = state.step - len(values) + 1
    for step, value in enumerate(values, first):
        if not math.isfinite(value):
            raise Diverged(f"the loss became {value} at step {step}; lower train.lr ({lr:g}), or check the data")
    state.recent_losses = [*state.recent_losses, *values][-JUDGE_OVER:]
    return sum(values) / len(values)


def _despair(state: State, classes: int, lr: float) -> None:
    """Raises Diverged when the recent losses are far above those of guessing all classes alike."""
    recent, guessing = sum(state.recent_losses) / len(state.recent_losses), math.log(classes)
    if recent > WORSE_THAN_GUESSING * guessing:
        raise Diverged(
            f"the mean loss of the {len(state.recent_losses)} steps up to step {state.step} is {recent:.3g}, far above "
            f"the {guessing:.3g} of guessing: training diverges; lower train.lr ({lr:g})"
        )


@torch.inference_mode()
def _score(model: PreTrainedModel, val: Rows, rank: int, workers: int) -> dict[str, float]:
    """Loss, accuracy and macro-F1 over all validation rows, each worker scoring its part."""
    model.eval()
    device, pad_id = next(model.parameters()).device, int(model.config.pad_token_id)
    predicted_N = torch.zeros(len(val), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    for chosen in batches.in_order(val, SCORE_AT_ONCE, rank, workers):
        batch = batches.collate(val, chosen, 1.0, pad_id)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits_BC = _logits(model, batch, device).float()
        predicted_N[torch.from_numpy(chosen).to(device)] = logits_BC.argmax(dim=1)
        loss += cross_entropy(logits_BC, batch.targets_B.to(device), reduction="sum")
    if workers > 1:
        dist.all_reduce(predicted_N)
        dist.all_reduce(loss)
    truth_N, answer_N = val.targets_N, np.asarray(predicted_N.cpu().numpy())
    return {
        "val_loss": float(loss) / len(val),
        "val_accuracy": accuracy(truth_N, answer_N),
        "val_macro_f1": macro_f1(truth_N, answer_N),
    }


def _judge(scores: dict[str, float], state: State, params: TrainParams, epoch: int) -> None:
    """Write a scoring down; note whether it is the best so far, and whether to wait for a better one."""
    if not math.isfinite(scores["val_loss"]):
        raise Diverged(f"the validation loss became {scores['val_loss']} at step {state.step}; lower train.lr")
    state.history.append({"step": state.step, "epoch": epoch, **scores})
    score = scores[f"val_{params.metric}"]
    better = state.best_score is None or (
        score > state.best_score if params.mode == "max" else score < state.best_score
    )
    if better:
        state.best_step, state.best_score, state.stale_epochs = state.step, score, 0
    else:
        state.stale_epochs += 1
        state.done = state.stale_epochs >= params.patience
