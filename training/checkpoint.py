"""Checkpoints: a model folder that explains itself, and the full ones from which a killed training goes on.

A full checkpoint is complete or it is not one: its seal, written last, lists every file's size and sha256.
"""

import errno
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, JsonValue, ValidationError
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from registry import bundle
from registry.contract import Contract, Encoder
from registry.errors import Refused
from registry.files import new_folder, read_json, sha256, write_json

NOTICE, STATE, TRAINER, SEAL = "NOTICE", "state.json", "trainer.pt", "seal.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
STEP_FOLDER = re.compile(r"step-\d{8}")


class CheckpointError(Refused):
    """A checkpoint that cannot be saved or loaded."""


class State(BaseModel, extra="forbid"):
    """Where a training is: with weights, optimizer and RNG, all it takes to go on as if nothing had happened."""

    step: int = 0
    """Optimizer steps taken."""
    history: list[dict[str, JsonValue]] = []
    """The lines of history.jsonl so far."""
    best_step: int | None = None
    best_score: float | None = None
    recent_losses: list[float] = []
    """Train losses of the last steps, one a step, by which divergence is seen."""
    stale_epochs: int = 0
    """Evaluations since the best one."""
    done: bool = False


def load(folder: Path) -> tuple[PreTrainedModel, Contract]:
    """The fp32 model and the contract of a checkpoint folder."""
    # dtype is stated: transformers 5 defaults to the checkpoint's own.
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, use_safetensors=True
    )
    return model, bundle.read_contract(folder)


def encoder(folder: Path) -> Encoder:
    """The encoder of a checkpoint folder."""
    config, contract = read_json(folder / "config.json"), bundle.read_contract(folder)
    return Encoder(folder / "tokenizer.json", contract.max_tokens, int(config["pad_token_id"]))


def save(folder: Path, model: PreTrainedModel, contract: Contract, beside: Path) -> None:
    """Write the model files and the contract; the tokenizer and the notice are copied from the folder `beside`.

    Raises CheckpointError when the weights cannot be written as safetensors.
    """
    try:
        model.save_pretrained(folder)
    except SafetensorError as error:
        if "os error 28" in str(error).lower() or "no space" in str(error).lower():
            raise OSError(errno.ENOSPC, f"no space left for the weights in {folder}") from error
        raise CheckpointError(f"the weights cannot be saved as safetensors: {error}; use another train.base") from error
    except (ValueError, RuntimeError) as error:
        raise CheckpointError(f"the weights cannot be saved as safetensors: {error}; use another train.base") from error
    for name in (*TOKENIZER_FILES, NOTICE) if beside != folder else ():
        shutil.copyfile(beside / name, folder / name)
    write_json(folder / bundle.CONTRACT, contract.model_dump(mode="json"))


def save_full(run: Path, state: State, model: PreTrainedModel, optimizer: torch.optim.Optimizer, start: Path) -> Path:
    """Write `run`/step-<n> with all it takes to go on, and seal it. Of the older ones, the best and the newest stay."""
    folder = step_folder(run, state.step)
    rng = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []}
    with new_folder(folder) as scratch:
        save(scratch, model, bundle.read_contract(start), start)
        torch.save({"optimizer": optimizer.state_dict(), "rng": rng}, scratch / TRAINER)
        write_json(scratch / STATE, state.model_dump(mode="json"))
        write_json(scratch / SEAL, bundle.manifest_of(scratch).model_dump(mode="json"))
    for old in sorted(_steps(run))[:-2]:
        if old != step_folder(run, state.best_step or 0):
            shutil.rmtree(old)
    return folder


def step_folder(run: Path, step: int) -> Path:
    """Where the full checkpoint after so many steps lies."""
    return run / f"step-{step:08d}"


def newest(run: Path) -> Path | None:
    """The newest full checkpoint of a run from which it can go on: complete, and its best one so far as well."""
    return next((folder for folder in sorted(_steps(run), reverse=True) if _lost(folder) is None), None)


def sweep(run: Path) -> None:
    """Remove the full checkpoints of a run that cannot be used, saying on stdout which and why."""
    for folder in sorted(_steps(run), reverse=True):
        if wrong := _lost(folder):
            print(f"checkpoint {folder.name} is not complete: {wrong}; it is left out", flush=True)
            shutil.rmtree(folder)
    for half_written in run.glob(".step-*"):
        print(f"checkpoint {half_written.name.split('.')[1]} was only half written; it is left out", flush=True)
        shutil.rmtree(half_written)


def _lost(folder: Path) -> str | None:
    if wrong := fault(folder):
        return wrong
    best = step_folder(folder.parent, read_state(folder).best_step or 0)
    if best.name in {folder.name, step_folder(folder.parent, 0).name}:
        return None
    return f"the best one so far, {best.name}, is lost" if fault(best) else None


def fault(folder: Path) -> str | None:
    """What keeps a full checkpoint from being complete, or None."""
    try:
        sealed = bundle.Manifest.model_validate(read_json(folder / SEAL))
    except (OSError, ValueError, ValidationError):
        return f"{SEAL} is missing or cut off"
    for entry in sealed.files:
        path = folder / entry.path
        if not path.is_file():
            return f"{entry.path} is missing"
        if path.stat().st_size != entry.bytes:
            return f"{entry.path} has {path.stat().st_size} bytes of {entry.bytes}"
        if sha256(path) != entry.sha256:
            return f"{entry.path} has other bytes than were written"
    return None


def read_state(folder: Path) -> State:
    """Where the training was when this full checkpoint was written."""
    return State.model_validate(read_json(folder / STATE))


def restore(folder: Path, optimizer: torch.optim.Optimizer) -> State:
    """Put optimizer and RNG back as a full checkpoint holds them. The weights come with `load`."""
    trainer: dict[str, Any] = torch.load(folder / TRAINER, map_location="cpu", weights_only=True)
    optimizer.load_state_dict(trainer["optimizer"])
    torch.set_rng_state(trainer["rng"]["cpu"])
    if torch.cuda.is_available() and trainer["rng"]["cuda"]:
        torch.cuda.set_rng_state_all(trainer["rng"]["cuda"])
    return read_state(folder)


def publish(best: Path, contract: Contract, target: Path) -> None:
    """Copy the model of a full checkpoint to where the next stage reads it, whole or not at all."""
    with new_folder(target) as scratch:
        for name in (*bundle.MODEL_FILES, NOTICE):
            shutil.copyfile(best / name, scratch / name)
        write_json(scratch / bundle.CONTRACT, contract.model_dump(mode="json"))


def _steps(run: Path) -> Iterator[Path]:
    return (path for path in run.glob("step-*") if STEP_FOLDER.fullmatch(path.name)) if run.is_dir() else iter(())
