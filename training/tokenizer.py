"""The tokenizer files of a checkpoint: the base's own bytes where it has them, with a pad token in any case."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from registry.files import read_json, write_json
from training.bases import BaseError

FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"
NO_LIMIT = 1_000_000
"""transformers writes 1e30 as model_max_length where none is known."""


@dataclass(frozen=True)
class Tokens:
    """What the model must know about its tokenizer."""

    pad_id: int
    largest_id: int
    limit: int | None
    """Tokens a text may take, as the tokenizer states it."""


def write(base: Path, folder: Path, model_pad_id: int | None) -> Tokens:
    """Put tokenizer.json and its config into `folder`. Raises BaseError when the base has none that can be served.

    The base's tokenizer.json is copied byte for byte: rebuilding it through a tokenizer class may change token ids.
    """
    config = _config(base)
    if (base / FILE).is_file():
        shutil.copyfile(base / FILE, folder / FILE)
    else:
        _convert(base, folder / FILE)
    tokenizer = Tokenizer.from_file(str(folder / FILE))
    pad = _pad_token(tokenizer, config, model_pad_id)
    if tokenizer.token_to_id(pad) is None:
        tokenizer.add_special_tokens([pad])
        tokenizer.save(str(folder / FILE))
        print(f"the tokenizer has no pad token; {pad} is added", flush=True)
    # Custom tokenizer code is never run, so nothing may ask for it.
    kept = {key: value for key, value in config.items() if key != "auto_map"}
    write_json(folder / CONFIG, {"tokenizer_class": "PreTrainedTokenizerFast", **kept, "pad_token": pad})
    limit = config.get("model_max_length")
    return Tokens(
        pad_id=int(tokenizer.token_to_id(pad) or 0),
        largest_id=max(tokenizer.get_vocab(with_added_tokens=True).values()),
        limit=int(limit) if limit and limit < NO_LIMIT else None,
    )


def _config(base: Path) -> dict[str, Any]:
    """tokenizer_config.json, completed from the special_tokens_map.json that older folders carry."""
    parts = [read_json(base / name) for name in ("special_tokens_map.json", CONFIG) if (base / name).is_file()]
    return {key: value for part in parts for key, value in part.items() if value is not None}


def _convert(base: Path, file: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        try:
            tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True, trust_remote_code=False)
            tokenizer.save_pretrained(scratch)
        except Exception as error:
            raise BaseError(f"{base} has no {FILE}, and its tokenizer could not be converted: {error}") from error
        if not (Path(scratch) / FILE).is_file():
            raise BaseError(
                f"{base} has only a slow tokenizer ({type(tokenizer).__name__}) and no {FILE}; "
                "training and serving need the tokenizers library's file: use a base that has one"
            )
        shutil.copyfile(Path(scratch) / FILE, file)


def _pad_token(tokenizer: Tokenizer, config: dict[str, Any], model_pad_id: int | None) -> str:
    """The pad token by name: the tokenizer's, else the model's, else end of text (it is masked), else a new one."""
    if named := _content(config.get("pad_token")):
        return named
    if model_pad_id is not None and (known := tokenizer.id_to_token(model_pad_id)):
        return known
    end = _content(config.get("eos_token"))
    return end if end and tokenizer.token_to_id(end) is not None else "[PAD]"


def _content(token: Any) -> str | None:
    return token.get("content") if isinstance(token, dict) else token
