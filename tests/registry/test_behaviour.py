"""Behaviour cases are data: what they ask for is checked, and what came out wrong is named."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline import paths
from pipeline.params import ParamsError, load_file
from registry.behaviour import Cases, Direction, Invariance, Minimum, seen
from registry.contract import Prediction

CASES = Cases(
    labels=["bad", "good"],
    minimum=[Minimum(text="fine", label="good"), Minimum(text="awful", label="bad")],
    invariance=[Invariance(text="fine", same=["Fine", "fine!"])],
    direction=[Direction(text="tea", then="tea, fine", toward="good")],
)


def answers(**good: float) -> dict[str, Prediction]:
    """Every text asked, with this score of `good`; 0.8 where none is given."""
    named = {"fine!": good.pop("fine_", 0.8), "tea, fine": good.pop("tea_fine", 0.8), "awful": 0.1, **good}
    scores = {text: named.get(text, 0.8) for text in CASES.texts()}
    return {
        text: Prediction(
            "good" if score > 0.5 else "bad", max(score, 1 - score), {"good": score, "bad": 1 - score}, False
        )
        for text, score in scores.items()
    }


def test_every_text_is_asked_once() -> None:
    assert CASES.texts() == ["fine", "awful", "Fine", "fine!", "tea", "tea, fine"]


def test_a_model_that_behaves_fails_no_case() -> None:
    found = seen(CASES, answers())
    assert {name: (kind.cases, kind.pass_rate) for name, kind in found.kinds.items()} == {
        "minimum": (2, 1.0),
        "invariance": (2, 1.0),
        "direction": (1, 1.0),
    }


@pytest.mark.parametrize(
    ("kind", "given", "text", "said"),
    [
        ("minimum", {"awful": 0.9}, "awful", "good"),
        ("invariance", {"fine_": 0.4}, "fine!", "bad"),
        ("direction", {"tea": 0.8, "tea_fine": 0.69}, "tea, fine", "0.69"),
    ],
)
def test_what_comes_out_wrong_is_named(kind: str, given: dict[str, float], text: str, said: str) -> None:
    found = seen(CASES, answers(**given)).kinds
    assert [(one.text, one.said) for one in found[kind].failing] == [(text, said)]
    assert all(not other.failing for name, other in found.items() if name != kind)


def test_a_score_may_fall_a_little_on_its_way() -> None:
    assert not seen(CASES, answers(tea=0.8, tea_fine=0.71)).kinds["direction"].failing


def test_a_case_with_an_unknown_label_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="labels that `labels` lacks: 'fantastic'"):
        Cases(labels=["bad", "good"], minimum=[Minimum(text="fine", label="fantastic")])


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ({"labels": ["a", "a"]}, "twice"),
        ({"labels": ["a", "b"], "minimum": [{"text": " \t", "label": "a"}]}, "visible"),
    ],
)
def test_a_case_that_could_never_be_asked_is_refused(cases: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Cases.model_validate(cases)


def test_the_projects_own_cases_can_be_read() -> None:
    cases = load_file(Cases, paths.BEHAVIOUR)
    assert len(cases.texts()) > 50 and all((cases.minimum, cases.invariance, cases.direction))


def test_a_faulty_file_of_cases_is_refused_with_every_fault(tmp_path: Path) -> None:
    file = tmp_path / "behaviour.yaml"
    file.write_text("labels: [a, b]\nminimum: [{text: fine}]\ninvariants: []\n", encoding="utf-8")
    with pytest.raises(ParamsError, match=r"(?s)minimum\.0\.label: .*invariants: is not known .*, invariance"):
        load_file(Cases, file)
