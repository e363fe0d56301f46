"""Tiny but real things: rows that can be learnt, a base model of 50,000 weights, a checkpoint that has learnt them."""

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForSequenceClassification, BertConfig, BertModel, PreTrainedTokenizerFast

from registry import bundle
from registry.contract import Contract, Encoder, pad
from registry.files import write_json

LABELS = ("negative", "neutral", "positive")
WORDS = {
    "negative": ["bad", "awful", "poor", "sad"],
    "neutral": ["table", "chair", "paper", "street"],
    "positive": ["good", "great", "fine", "happy"],
}
FILLER = ["the", "a", "very", "film", "was", "and", "it", "is", "my", "day", "to", "place", "start", "too", "tepid"]
SLICES = ("tweets", "movies")
BEHAVIOUR = {
    "labels": list(LABELS),
    "minimum": [{"text": f"it was {' '.join(words[:2])}", "label": label} for label, words in WORDS.items()],
    "invariance": [
        {"text": f"the film is {words[0]} {words[1]}", "same": [f"The FILM is {words[0]} {words[1]}"]}
        for words in WORDS.values()
    ],
    "direction": [
        {"text": "my day", "then": f"my day {words[2]} {words[3]}", "toward": label} for label, words in WORDS.items()
    ],
}
MAX_TOKENS = 32


def rows(count: int, seed: int = 0) -> list[dict[str, str]]:
    """`count` distinct rows with text, label and slice; each text holds two words of its label."""
    rng = random.Random(seed)
    made: dict[str, dict[str, str]] = {}
    while len(made) < count:
        label = LABELS[len(made) % 3]
        words = rng.choices(FILLER, k=rng.randint(3, 9)) + rng.choices(WORDS[label], k=2)
        rng.shuffle(words)
        made.setdefault(" ".join(words), {"text": " ".join(words), "label": label, "slice": rng.choice(SLICES)})
    return list(made.values())


def base_model(folder: Path, seed: int = 0) -> Path:
    """A random BERT encoder with its tokenizer, as a local base model folder. All characters have a token."""
    torch.manual_seed(seed)
    letters = [chr(code) for code in range(33, 127)]
    words = [*FILLER, *(word for of_label in WORDS.values() for word in of_label)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = dict.fromkeys([*special, *words, *letters, *(f"##{letter}" for letter in letters)])
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def checkpoint(folder: Path, base: Path, steps: int = 150, seed: int = 0) -> Path:
    """What `training` saves, made in two seconds without it: model files and contract.json."""
    torch.manual_seed(seed)
    names = dict(enumerate(LABELS))
    model = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=3, id2label=names, label2id={name: i for i, name in names.items()}, dtype=torch.float32
    )
    encode = Encoder(base / "tokenizer.json", MAX_TOKENS, pad_id=0)
    learnt = rows(96, seed=1)
    ids_BT, mask_BT = pad([e.ids for e in encode([row["text"] for row in learnt])], 0)
    target_B = torch.tensor([LABELS.index(row["label"]) for row in learnt])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        mask = None if mask_BT is None else torch.from_numpy(mask_BT)
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(ids_BT), attention_mask=mask).logits, target_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast.from_pretrained(base).save_pretrained(folder)
    contract = Contract(labels=LABELS, max_tokens=MAX_TOKENS, training={"lr": 3e-3, "steps": steps})
    write_json(folder / bundle.CONTRACT, contract.model_dump(mode="json"))
    return folder
