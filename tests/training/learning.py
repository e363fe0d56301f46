"""What the loop needs, tiny: encoded rows, a started model, dials that learn them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from registry.contract import Encoder
from tests import tiny
from training import checkpoint, loop, model, plan
from training.batches import Rows
from training.checkpoint import State
from training.params import TrainParams


def dials(base: Path, **changes: object) -> TrainParams:
    """Dials with which the tiny rows are learnt in a few epochs."""
    tree = {"base": str(base), "max_tokens": 32, "lr": 3e-3, "batch_size": 16, "epochs": 2, "freeze_embeddings": False}
    return TrainParams.model_validate({**tree, "patience": 9, "num_workers": 1, **changes})


def encoded(folder: Path, rows: Sequence[dict[str, str]]) -> Rows:
    """Rows as the loop takes them."""
    encode = Encoder(folder / "tokenizer.json", tiny.MAX_TOKENS, pad_id=0)
    ids = [np.array(e.ids, dtype=np.int32) for e in encode([row["text"] for row in rows])]
    targets = np.array([tiny.LABELS.index(row["label"]) for row in rows])
    return Rows(np.concatenate(ids), np.cumsum([0, *map(len, ids)]), targets)


def started(params: TrainParams, folder: Path) -> Path:
    """The checkpoint that training starts from."""
    if not folder.exists():
        model.start(params, tiny.LABELS, Path("/"), folder)
    return folder


class Run:
    """One training in this process, moment by moment."""

    def __init__(self, params: TrainParams, start: Path, rows: Rows, val: Rows, resume: Path | None = None) -> None:
        torch.set_num_threads(1)
        self.net: PreTrainedModel = checkpoint.load(resume or start)[0]
        self.optimizer = loop.optimizer_of(self.net, params)
        self.state = checkpoint.restore(resume, self.optimizer) if resume else State()
        self.plan = plan.whole(len(rows), params, keep_every=params.checkpoint_every_steps)
        self.moments = loop.train(self.net, self.optimizer, rows, val, params, self.plan, self.state)
        self.start = start

    def finish(self, keep_in: Path | None = None, die_after: int | None = None) -> "Run":
        """Run to the end, or until `die_after` steps, keeping full checkpoints when told where."""
        for moment in self.moments:
            if moment.keep and keep_in:
                checkpoint.save_full(keep_in, self.state, self.net, self.optimizer, self.start)
            if die_after and moment.state.step >= die_after:
                break
        return self
