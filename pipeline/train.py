"""Stage 4: splits and the best settings -> the checkpoint of the best epoch, and the history of the run."""

import json
from typing import Any

from pydantic import ValidationError

from pipeline import params, paths, stage
from pipeline.cluster import RayParams, cluster
from pipeline.work import unfinished
from registry import bundle
from registry.errors import Refused
from registry.files import read_json, write_text
from training import bases, checkpoint, fit, model
from training.params import TrainParams

# How the machine was used does not answer: with it in the contract, equal models would have different digests.
UNANSWERING = {"checkpoint_every_steps", "max_failures", "use_gpu"}


class SettingsError(Refused):
    """The search's settings and the train branch do not go together."""


def main() -> None:
    """Train with what the search found, and keep the best epoch."""
    asked = params.load("train", TrainParams)
    best = read_json(paths.BEST)
    wanted = overridden(asked, best["settings"])
    base = bases.resolve(wanted.base, wanted.revision, paths.ROOT)
    with unfinished("train", [paths.TRAIN, paths.VAL, paths.LABELS, paths.BEST, base], [asked]) as work:
        start = work / "start"
        if not start.exists():
            model.start(wanted, read_json(paths.LABELS), paths.ROOT, start)
        with cluster(params.load("ray", RayParams)):
            fitted = fit.fit(start, paths.TRAIN, paths.VAL, wanted, work)
        contract = bundle.read_contract(fitted.best)
        told = _told(wanted, best, fitted.state)
        checkpoint.publish(fitted.best, contract.model_copy(update={"training": told}), paths.CHECKPOINT)
        write_text(paths.HISTORY, "".join(json.dumps(line, sort_keys=True) + "\n" for line in fitted.state.history))
    state = fitted.state
    print(
        f"train: step {state.best_step} of {state.step} is best, {wanted.metric} {state.best_score:.4f} on validation"
    )


def overridden(asked: TrainParams, settings: dict[str, Any]) -> TrainParams:
    """The train branch with the search's settings in it, said on stdout. Raises SettingsError when they clash."""
    try:
        wanted = TrainParams.model_validate({**asked.model_dump(), **settings})
    except ValidationError as error:
        faults = "; ".join(fault["msg"] for fault in error.errors())
        raise SettingsError(
            f"the settings {settings} of artifacts/best.json do not fit train: {faults}; fix tune.space"
        ) from error
    for name, value in settings.items():
        print(f"train.{name}: {value} from the search, instead of {getattr(asked, name)}", flush=True)
    return wanted


def _told(params: TrainParams, best: dict[str, Any], state: checkpoint.State) -> dict[str, Any]:
    """What the contract says about how the weights came to be: steps, no times, no paths but the user's own."""
    scored = next(line for line in state.history if line["step"] == state.best_step and "val_loss" in line)
    return {
        **params.model_dump(mode="json", exclude=UNANSWERING),
        "tuned": best["settings"],
        "trial": best["trial"],
        "best_step": state.best_step,
        "best_epoch": scored["epoch"],
        "steps": state.step,
        "validation": {name.removeprefix("val_"): scored[name] for name in scored if name.startswith("val_")},
    }


if __name__ == "__main__":
    stage.run("train", main)
