"""How many steps a training has, how fast it learns at each, and what happens after which."""

import math
from dataclasses import dataclass

from training.params import TrainParams


@dataclass(frozen=True)
class Plan:
    """How many steps there are, and what happens after which."""

    steps_an_epoch: int
    steps: int
    warmup_steps: int
    score_after: frozenset[int]
    """Steps after which the validation rows are scored."""
    keep_every: int | None = None
    """Steps between two full checkpoints beside those at every scoring; None: the caller keeps none."""

    def lr_factor(self, step: int) -> float:
        """Share of `train.lr` for the step after `step` steps: up linearly, then down; 0 when all are taken."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        return (self.steps - step) / (self.steps - self.warmup_steps)


def whole(rows: int, params: TrainParams, keep_every: int | None = None) -> Plan:
    """The plan of a whole training: scored after every epoch."""
    steps_an_epoch = math.ceil(rows / params.batch_size)
    steps = steps_an_epoch * params.epochs
    ends = frozenset(range(steps_an_epoch, steps + 1, steps_an_epoch))
    return Plan(steps_an_epoch, steps, int(params.warmup_fraction * steps), ends, keep_every)
