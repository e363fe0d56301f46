"""Behaviour cases: what a model must be able to do, written as data, and what its answers make of them; pure.

The kinds are those of CheckList (Ribeiro et al., ACL 2020): minimum function, invariance, direction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from registry.branch import Branch
from registry.contract import Prediction, is_visible
from registry.service_evidence import Behaviour, BehaviourKind, Misbehaviour


def _visible(text: str) -> str:
    if not is_visible(text):
        raise ValueError("has no visible characters, so the service would refuse it")
    return text


Text = Annotated[str, AfterValidator(_visible)]
Label = Annotated[str, Field(min_length=1)]

DROP = 0.1
"""How far a score may fall although the added words speak for it; CheckList's own tolerance."""


class Minimum(Branch):
    """A plain text and the label that it must get."""

    text: Text
    label: Label


class Invariance(Branch):
    """A text, and others that must get the label that it gets."""

    text: Text
    same: Annotated[list[Text], Field(min_length=1)]


class Direction(Branch):
    """A text, and a longer one that must not be less likely to get the label that the added words speak for."""

    text: Text
    then: Text
    toward: Label


class Cases(Branch):
    """The file of cases."""

    labels: Annotated[list[Label], Field(min_length=2)]
    """Of the models that the cases are about; for others the gate is off."""
    minimum: list[Minimum] = Field(default_factory=list)
    invariance: list[Invariance] = Field(default_factory=list)
    direction: list[Direction] = Field(default_factory=list)

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("`labels` names a label twice")
        asked = {case.label for case in self.minimum} | {case.toward for case in self.direction}
        if unknown := sorted(asked - set(self.labels)):
            raise ValueError(f"cases name labels that `labels` lacks: {', '.join(map(repr, unknown))}")
        return self

    def are_about(self, labels: Sequence[str]) -> bool:
        """Whether a model of these labels can be asked."""
        return set(self.labels) == set(labels)

    def texts(self) -> list[str]:
        """All texts to ask, each once."""
        found = [case.text for case in self.minimum]
        for group in self.invariance:
            found += [group.text, *group.same]
        for pair in self.direction:
            found += [pair.text, pair.then]
        return list(dict.fromkeys(found))


def seen(cases: Cases, answers: Mapping[str, Prediction]) -> Behaviour:
    """Which cases came out right. `answers`: text -> what the model said, for every text asked."""
    return Behaviour(
        about=tuple(cases.labels),
        kinds={
            "minimum": _kind(_minimum(cases, answers)),
            "invariance": _kind(_invariance(cases, answers)),
            "direction": _kind(_direction(cases, answers)),
        },
    )


def not_asked(cases: Cases) -> Behaviour:
    """What there is to say about a model of other labels."""
    return Behaviour(about=tuple(cases.labels), kinds={})


def _kind(found: Iterator[Misbehaviour | None]) -> BehaviourKind:
    faults = list(found)
    return BehaviourKind(cases=len(faults), failing=tuple(fault for fault in faults if fault))


def _minimum(cases: Cases, answers: Mapping[str, Prediction]) -> Iterator[Misbehaviour | None]:
    for case in cases.minimum:
        said = answers[case.text].label
        yield None if said == case.label else Misbehaviour(text=case.text, wanted=case.label, said=said)


def _invariance(cases: Cases, answers: Mapping[str, Prediction]) -> Iterator[Misbehaviour | None]:
    for group in cases.invariance:
        wanted = answers[group.text].label
        for text in group.same:
            said = answers[text].label
            fault = Misbehaviour(text=text, wanted=f"{wanted}, as for {group.text!r}", said=said)
            yield None if said == wanted else fault


def _direction(cases: Cases, answers: Mapping[str, Prediction]) -> Iterator[Misbehaviour | None]:
    for case in cases.direction:
        before, after = (answers[text].scores[case.toward] for text in (case.text, case.then))
        fault = Misbehaviour(
            text=case.then,
            wanted=f"{case.toward} at least {before - DROP:.2f}: {case.text!r} has {before:.2f}",
            said=f"{after:.2f}",
        )
        yield None if after >= before - DROP else fault
