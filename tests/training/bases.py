"""Small base models of other kinds than `tests.tiny` makes, each odd in its own way."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2Model,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)


def words_tokenizer(folder: Path, words: list[str], **special: str) -> None:
    """A tokenizer.json of whole words, with `special` tokens such as unk_token or pad_token."""
    vocab = {word: index for index, word in enumerate([*special.values(), *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


def gpt2(folder: Path) -> Path:
    """A decoder whose tokenizer and config know no pad token (m01)."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_embd=16, n_layer=2, n_head=2, n_positions=40, bos_token_id=0, eos_token_id=0)
    GPT2Model(config).save_pretrained(folder)
    words_tokenizer(folder, [f"w{i}" for i in range(50)], unk_token="<unk>", eos_token="<end>")
    return folder


def roberta(folder: Path) -> Path:
    """An encoder whose positions start behind the padding index."""
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=34,
        pad_token_id=1,
    )
    RobertaModel(config).save_pretrained(folder)
    words_tokenizer(folder, [f"w{i}" for i in range(50)], unk_token="<unk>", pad_token="<pad>")
    return folder


def with_a_head(folder: Path, base: Path, labels: int) -> Path:
    """The tiny base as a classifier (or, with one label, a regressor) that somebody trained before (m03)."""
    torch.manual_seed(3)
    config = BertConfig.from_pretrained(base, num_labels=labels)
    config.problem_type = "regression" if labels == 1 else "multi_label_classification"
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(base).save_pretrained(folder)
    return folder


def change_config(folder: Path, **changes: object) -> None:
    """Change entries of a folder's config.json; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
