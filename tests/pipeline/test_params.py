"""params.yaml is read as DVC reads it, and a bad one lists every fault before any work."""

from pathlib import Path

import pytest
from dvc.utils.serialize import load_yaml

from pipeline import paths
from pipeline.all_params import load_all
from pipeline.params import ParamsError, load, read
from training.params import TrainParams


def edited(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The project's params.yaml with some of its text changed."""
    text = paths.PARAMS.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "params.yaml"
    file.write_text(text)
    return file


def test_the_projects_own_params_are_sound() -> None:
    assert load_all().registry.name == "sentiment"


def test_every_fault_is_listed_by_path_and_value(tmp_path: Path) -> None:
    file = edited(
        tmp_path,
        ("epochs: 2", "epochs: 0"),
        ("num_workers: 1", "num_worker: 3"),
        ("name: sentiment", "name: team/sent"),
        ("max_drop: 0.02", "max_drop: lots"),
    )
    with pytest.raises(ParamsError) as caught:
        load_all(file)
    for part in ("train.epochs", "got 0", "train.num_worker:", "got 3", "registry.name", "team/sent", "gates.max_drop"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("precision: auto", "precision: bf16")], r"serve: precision bf16 does not run on cpu"),
        ([("precision: auto", "precision: int8"), ("num_gpus: 0.0", "num_gpus: 1.0")], r"int8 does not run on cuda"),
        (
            [("precision: auto", "precision: int8"), ("[fp32, int8]", "[fp32]")],
            r"package\.precisions .* not\s+build it",
        ),
        ([("[fp32, int8]", "[int8]")], r"package\.precisions: .*fp32 among them"),
        ([("[fp32, int8]", "[fp32, int4]")], r"package\.precisions\.1: .*'int8'"),
    ],
)
def test_a_precision_that_could_never_answer_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], said: str
) -> None:
    with pytest.raises(ParamsError, match=said):
        load_all(edited(tmp_path, *changes))


@pytest.mark.parametrize("name", ["team/sent", "a:b", "m%6f", "my model", "émotion", '""', "x" * 300])
def test_r08_a_model_name_that_cannot_stand_in_a_uri_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParamsError, match=r"registry\.name"):
        load_all(edited(tmp_path, ("name: sentiment", f"name: {name}")))


@pytest.mark.parametrize("spelt", ["1e-5", "1.0e-5", "0.00001"])
def test_v04_scientific_notation_is_a_number(tmp_path: Path, spelt: str) -> None:
    file = edited(tmp_path, ("  lr: 1.0e-4", f"  lr: {spelt}"))
    assert load("train", TrainParams, file).lr == 0.00001


def test_v04_we_and_dvc_read_the_same_values(tmp_path: Path) -> None:
    file = edited(tmp_path, ("seed: 7", "seed: 010"), ("  lr: 1.0e-4", "  lr: 1e-5"))
    assert read(file) == load_yaml(str(file))


@pytest.mark.parametrize(
    ("metric", "mode", "sound"),
    [
        ("loss", "min", True),
        ("macro_f1", "max", True),
        ("loss", "max", False),
        ("macro_f1", "min", False),
        ("f1_typo", "max", False),
    ],
)
def test_t05_a_metric_goes_with_its_direction(tmp_path: Path, metric: str, mode: str, sound: bool) -> None:
    file = edited(tmp_path, ("metric: macro_f1 ", f"metric: {metric} "), ("mode: max ", f"mode: {mode} "))
    if sound:
        assert load("train", TrainParams, file).metric == metric
    else:
        with pytest.raises(ParamsError, match=r"train"):
            load("train", TrainParams, file)


def test_a_number_of_rows_must_be_whole_and_a_fraction_may_be_an_integer_literal(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"train\.batch_size"):
        load("train", TrainParams, edited(tmp_path, ("batch_size: 32 ", "batch_size: 32.5 ")))
    assert load("train", TrainParams, edited(tmp_path, ("clip_norm: 1.0", "clip_norm: 1"))).clip_norm == 1.0


def test_a_missing_branch_and_broken_yaml_are_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="train: is missing"):
        load("train", TrainParams, edited(tmp_path, ("train:\n", "trian:\n")))
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1\n")
    with pytest.raises(ParamsError, match="not YAML"):
        read(broken)
