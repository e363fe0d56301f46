"""A base becomes a classifier, or is refused before anybody waits for an epoch."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertForSequenceClassification

from registry import scorer
from registry.files import read_json
from registry.packing import seal
from tests.training import bases as odd
from training import checkpoint, model
from training.bases import BaseError
from training.params import TrainParams

NAMES = ("no", "yes")


def start(base: Path, folder: Path, labels: tuple[str, ...] = NAMES, **dials: object) -> Path:
    params = TrainParams.model_validate({"base": str(base), "max_tokens": 32, **dials})
    model.start(params, labels, Path("/"), folder)
    return folder


@pytest.fixture
def base(tiny_base: Path, tmp_path: Path) -> Path:
    """A copy of the tiny base that a test may damage."""
    return shutil.copytree(tiny_base, tmp_path / "base")


def logits(folder: Path, texts: list[str]) -> np.ndarray:
    answer = scorer.load(folder)
    return answer.forward(answer.encode(texts))


def test_the_start_is_a_checkpoint_with_our_names_and_no_other(base: Path, tmp_path: Path) -> None:
    made = start(base, tmp_path / "start")
    net, contract = checkpoint.load(made)
    assert contract.labels == NAMES and contract.max_tokens == 32
    assert net.config.id2label == {0: "no", 1: "yes"} and net.config.label2id == {"no": 0, "yes": 1}
    assert net.config.problem_type == "single_label_classification"
    assert net.dtype == torch.float32
    assert "base model" in (made / "NOTICE").read_text()
    assert (made / "tokenizer.json").read_bytes() == (base / "tokenizer.json").read_bytes()


def test_the_same_seed_makes_the_same_head_and_another_seed_another(base: Path, tmp_path: Path) -> None:
    one, same, other = (
        load_file(start(base, tmp_path / name, seed=seed) / "model.safetensors")["classifier.weight"]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_the_dropout_dial_sets_every_dropout_of_the_model(base: Path, tmp_path: Path) -> None:
    net, _ = checkpoint.load(start(base, tmp_path / "start", dropout=0.25))
    assert {part.p for part in net.modules() if isinstance(part, torch.nn.Dropout)} == {0.25}
    assert net.config.attention_probs_dropout_prob == 0.25


def test_a_base_without_pad_token_gets_one_in_tokenizer_and_config_m01(tmp_path: Path) -> None:
    made = start(odd.gpt2(tmp_path / "gpt2"), tmp_path / "start", max_tokens=24)
    tokenizer = AutoTokenizer.from_pretrained(made)
    assert tokenizer.pad_token_id == read_json(made / "config.json")["pad_token_id"] is not None
    seal(made, tmp_path / "bundle", 1.0)
    texts = ["w1", "w2 w3 w4 w5", "w6 w7", " ".join(f"w{i}" for i in range(20))]
    together = logits(tmp_path / "bundle", texts)
    alone = np.concatenate([logits(tmp_path / "bundle", [text]) for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)


def test_a_base_without_any_special_token_gets_a_new_pad_token_m01(tmp_path: Path) -> None:
    folder = odd.gpt2(tmp_path / "gpt2")
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    net, _ = checkpoint.load(start(folder, tmp_path / "start", max_tokens=24))
    assert Tokenizer.from_file(str(tmp_path / "start/tokenizer.json")).token_to_id("[PAD]") == net.config.pad_token_id


@pytest.mark.parametrize("labels", [1, 3, 2])
def test_a_base_with_a_head_of_its_own_gets_a_new_one_and_says_so_m03(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: int
) -> None:
    old = odd.with_a_head(tmp_path / "old", base, labels)
    made = start(old, tmp_path / "start")
    assert capsys.readouterr().out.count("head of its own") == 1
    net, _ = checkpoint.load(made)
    assert net.config.id2label == {0: "no", 1: "yes"} and net.config.problem_type == "single_label_classification"
    kept = load_file(old / "model.safetensors")
    new = net.state_dict()
    assert new["classifier.weight"].shape != kept["classifier.weight"].shape or not torch.equal(
        new["classifier.weight"], kept["classifier.weight"]
    )
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(new[name], kept[name])


def test_a_tokenizer_with_more_ids_than_embeddings_makes_the_embedding_grow_m05(base: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    known = tokenizer.get_vocab_size()
    tokenizer.add_tokens(["[USER]", "👍"])
    tokenizer.save(str(base / "tokenizer.json"))
    made = start(base, tmp_path / "start")
    assert checkpoint.load(made)[0].get_input_embeddings().num_embeddings == known + 2
    seal(made, tmp_path / "bundle", 1.0)
    assert np.isfinite(logits(tmp_path / "bundle", ["[USER] said 👍"])).all()


@pytest.mark.parametrize("file", ["pytorch_model.bin", None])
def test_a_base_without_safetensors_is_refused_with_the_remedy_m08(
    base: Path, tmp_path: Path, file: str | None
) -> None:
    (base / "model.safetensors").unlink()
    if file:
        (base / file).write_bytes(b"pickle")
    with pytest.raises(BaseError, match="convert it" if file else "no weights at all"):
        start(base, tmp_path / "start")
    assert not (tmp_path / "start").exists()


def test_weights_under_foreign_names_are_refused_and_the_first_missing_ones_named_m08(
    base: Path, tmp_path: Path
) -> None:
    weights = {f"wrapped.inner.{name}": tensor for name, tensor in load_file(base / "model.safetensors").items()}
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BaseError, match=r"bert\.embeddings\.LayerNorm\.bias.*start at random"):
        start(base, tmp_path / "start")


def test_one_missing_encoder_tensor_is_enough_to_refuse_m08(base: Path, tmp_path: Path) -> None:
    weights = load_file(base / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BaseError, match=r"1 tensors.*encoder\.layer\.1\.output\.dense\.weight"):
        start(base, tmp_path / "start")


def test_a_missing_pooler_is_part_of_the_new_head(base: Path, tmp_path: Path) -> None:
    weights = {name: tensor for name, tensor in load_file(base / "model.safetensors").items() if "pooler" not in name}
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    start(base, tmp_path / "start")


def test_a_save_that_is_refused_is_found_before_training_m07(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise ValueError("You are trying to save a non contiguous tensor")

    monkeypatch.setattr(BertForSequenceClassification, "save_pretrained", refuse)
    with pytest.raises(checkpoint.CheckpointError, match="non contiguous"):
        start(base, tmp_path / "start")


def test_weights_that_come_back_otherwise_are_found_before_training_m07(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = BertForSequenceClassification.save_pretrained

    def lossy(self: BertForSequenceClassification, folder: Path) -> None:
        self.classifier.weight.data += 1.0
        kept(self, folder)
        self.classifier.weight.data -= 1.0

    monkeypatch.setattr(BertForSequenceClassification, "save_pretrained", lossy)
    with pytest.raises(BaseError, match="otherwise after it was saved"):
        start(base, tmp_path / "start")


@pytest.mark.parametrize(("asked", "most"), [(16, 16), (500, 64)])
def test_max_tokens_is_what_the_base_can_take(base: Path, tmp_path: Path, asked: int, most: int) -> None:
    assert checkpoint.load(start(base, tmp_path / "start", max_tokens=asked))[1].max_tokens == most


def test_the_roberta_family_loses_the_positions_before_its_padding_index(tmp_path: Path) -> None:
    made = start(odd.roberta(tmp_path / "roberta"), tmp_path / "start", max_tokens=500)
    assert checkpoint.load(made)[1].max_tokens == 32


def test_a_config_that_needs_its_own_code_is_refused(base: Path, tmp_path: Path) -> None:
    odd.change_config(base, model_type="homemade", auto_map={"AutoConfig": "code.Config"})
    with pytest.raises(BaseError, match="own code"):
        start(base, tmp_path / "start")


def test_one_class_is_refused_m04(base: Path, tmp_path: Path) -> None:
    with pytest.raises(BaseError, match=r"at least 2 classes, found 1 \['ok'\]"):
        start(base, tmp_path / "start", labels=("ok",))


def test_many_long_odd_names_survive_m10(base: Path, tmp_path: Path) -> None:
    names = tuple(sorted(f"{i:03d}/a:b%c 👍 {'x' * 50}" for i in range(150)))
    net, contract = checkpoint.load(start(base, tmp_path / "start", labels=names))
    assert contract.labels == names and tuple(net.config.id2label.values()) == names
