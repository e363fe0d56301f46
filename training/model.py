"""Base model -> classifier: check it, put a new head on, and try it out before anybody waits for an epoch.

The result is a checkpoint folder that has learnt nothing yet; training, search and every worker start from it.
Shape letters: B texts, T tokens, C classes.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel
from transformers.utils import logging as transformers_logging

from registry.contract import Contract, pad
from registry.files import new_folder, write_text
from training import bases, checkpoint, tokenizer
from training.bases import BaseError
from training.params import TrainParams
from training.tokenizer import Tokens

DROPOUT = re.compile(r"dropout|pdrop")
RELOAD_TOLERANCE = 1e-4


def quiet() -> None:
    """Keep transformers' tables and bars of every load off the terminal; what matters is checked and said here."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def start(params: TrainParams, labels: Sequence[str], root: Path, folder: Path) -> None:
    """Make `folder` the checkpoint that training starts from: base weights, new head, tokenizer, contract, notice.

    Saved, loaded again and asked once before it is there. Raises BaseError naming what keeps the base from being used.
    """
    quiet()
    if len(labels) < 2:
        raise BaseError(
            f"a classifier needs at least 2 classes, found {len(labels)} {list(labels)}; run dvc repro prepare"
        )
    base = bases.resolve(params.base, params.revision, root)
    with new_folder(folder) as scratch:
        config = _config(base, params, labels)
        tokens = tokenizer.write(base, scratch, config.pad_token_id)
        config.pad_token_id = tokens.pad_id
        model = _classifier(base, config, params.seed)
        _fit_embeddings(model, tokens)
        contract = Contract(labels=tuple(labels), max_tokens=_max_tokens(model, tokens, params.max_tokens))
        write_text(scratch / checkpoint.NOTICE, bases.notice(params.base, params.revision, base))
        checkpoint.save(scratch, model, contract, beside=scratch)
        _try(scratch, model, contract)


def _config(base: Path, params: TrainParams, labels: Sequence[str]) -> Any:
    names = dict(enumerate(labels))
    try:
        config = AutoConfig.from_pretrained(
            base,
            num_labels=len(labels),
            id2label=names,
            label2id={label: index for index, label in names.items()},
            problem_type="single_label_classification",
            local_files_only=True,
            trust_remote_code=False,
        )
    except (OSError, ValueError, KeyError) as error:
        raise BaseError(
            f"train.base {params.base}: its config.json cannot be used without running the model's own code, "
            f"which we never do, or it is of an unknown kind: {error}"
        ) from error
    for name, value in config.to_dict().items():
        if DROPOUT.search(name) and (value is None or isinstance(value, float | int)) and not isinstance(value, bool):
            setattr(config, name, params.dropout)
    return config


def _classifier(base: Path, config: Any, seed: int) -> PreTrainedModel:
    """The base with a new head drawn from `seed`. Raises BaseError when any of the base's own weights is missing."""
    torch.manual_seed(seed)
    try:
        model, found = AutoModelForSequenceClassification.from_pretrained(
            base,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise BaseError(f"{base} cannot be loaded as a text classifier: {error}") from error
    inside = f"{model.base_model_prefix}."
    # A pooler is part of the head: many encoders are published without one.
    missing = sorted(key for key in found["missing_keys"] if key.startswith(inside) and ".pooler." not in key)
    resized = sorted(str(fault[0]) for fault in found["mismatched_keys"] if str(fault[0]).startswith(inside))
    if missing or resized:
        raise BaseError(
            f"{base}: {len(missing)} tensors of the encoder are not among its weights and {len(resized)} have another "
            f"shape, first {', '.join([*missing, *resized][:3])}; they would start at random. "
            "The weights belong to another architecture, or their names carry a foreign prefix"
        )
    _new_head(model, found, seed)
    return model


def _new_head(model: PreTrainedModel, found: dict[str, Any], seed: int) -> None:
    """Draw all weights outside the encoder anew, whatever the base brought along."""
    torch.manual_seed(seed)
    heads = [part for name, part in model.named_children() if name != model.base_model_prefix]
    for module in (module for head in heads for module in head.modules()):
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=getattr(model.config, "initializer_range", None) or 0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, torch.nn.LayerNorm):
            module.reset_parameters()
    inside = f"{model.base_model_prefix}."
    head_keys = {key for key in model.state_dict() if not key.startswith(inside)}
    if head_keys - set(found["missing_keys"]):
        print(f"the base has a head of its own; it gets a new one for {model.config.num_labels} labels", flush=True)


def _fit_embeddings(model: PreTrainedModel, tokens: Tokens) -> None:
    rows = model.get_input_embeddings().num_embeddings
    if tokens.largest_id >= rows:
        model.resize_token_embeddings(tokens.largest_id + 1, mean_resizing=False)
        print(
            f"the tokenizer knows {tokens.largest_id + 1} ids, the model {rows}; the embedding is resized", flush=True
        )


def _max_tokens(model: PreTrainedModel, tokens: Tokens, wanted: int) -> int:
    """The smallest of what was asked for, what the tokenizer states and the positions the model has."""
    positions = [
        # Models of the RoBERTa family count positions from behind the padding index.
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for name, table in model.named_modules()
        if isinstance(table, torch.nn.Embedding) and name.endswith("position_embeddings")
    ]
    stated = [] if positions else [getattr(model.config, "max_position_embeddings", None)]
    limits = [limit for limit in (tokens.limit, *positions, *stated) if limit and limit > 0]
    most = min([wanted, *limits])
    if most < wanted:
        print(f"train.max_tokens {wanted} is more than the base can take; texts are cut at {most} tokens", flush=True)
    return most


@torch.inference_mode()
def _try(folder: Path, model: PreTrainedModel, contract: Contract) -> None:
    """Ask the saved and the original model about a short and a longest text. Raises BaseError when they differ."""
    again, _ = checkpoint.load(folder)
    encoded = checkpoint.encoder(folder)(["short", "word " * contract.max_tokens])
    ids_BT, mask_BT = pad([text.ids for text in encoded], model.config.pad_token_id)
    inputs = {"input_ids": torch.from_numpy(ids_BT), "attention_mask": torch.from_numpy(np.asarray(mask_BT))}
    try:
        answers_BC = [each.eval()(**inputs).logits for each in (model, again)]
    except (IndexError, RuntimeError, ValueError) as error:
        raise BaseError(f"the base fails on {contract.max_tokens} tokens: {error}; lower train.max_tokens") from error
    if not torch.isfinite(answers_BC[0]).all():
        raise BaseError("the base answers NaN before any training; its weights are broken")
    if not torch.allclose(answers_BC[0], answers_BC[1], atol=RELOAD_TOLERANCE):
        raise BaseError("the base answers otherwise after it was saved and loaded again; use another train.base")
