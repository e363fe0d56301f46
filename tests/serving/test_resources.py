"""The comparison of what a graph needs with what Ray has."""

from typing import Any

import pytest

from registry.bundle import VersionRef
from serving import resources
from serving.app import build
from serving.params import AutoscalingParams, ServeParams
from serving.resources import TooSmall


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray of two machines with two CPUs each and no GPU."""
    nodes: list[dict[str, Any]] = [{"Alive": True, "Resources": {"CPU": 2.0}} for _ in range(2)]
    monkeypatch.setattr(resources.ray, "nodes", lambda: nodes)
    monkeypatch.setattr(resources.ray, "cluster_resources", lambda: {"CPU": 4.0})


@pytest.mark.usefixtures("machine")
def test_the_sum_is_told(tiny_version: VersionRef) -> None:
    line = resources.check(build(tiny_version, ServeParams(num_replicas=3, num_cpus=1.0), verified=False))
    assert "needs 3 CPU and 0 GPU" in line
    assert "Ray has 4 CPU and 0 GPU" in line


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("dials", "missing"),
    [
        ({"num_gpus": 1}, "1 GPU.*serve.num_gpus: 0"),
        ({"num_gpus": 0.25}, "0.25 GPU"),
        ({"num_replicas": 5}, "1 CPU missing.*serve.num_cpus"),
        ({"num_cpus": 3.0}, "one replica of Model needs 3 CPU"),
        ({"autoscaling": AutoscalingParams(min_replicas=5, max_replicas=6)}, "1 CPU missing"),
    ],
)
def test_what_is_missing_is_named_with_the_remedy(
    tiny_version: VersionRef, dials: dict[str, Any], missing: str
) -> None:
    with pytest.raises(TooSmall, match=missing):
        resources.check(build(tiny_version, ServeParams(**dials), verified=False))


@pytest.mark.usefixtures("machine")
def test_autoscaling_needs_only_what_it_starts_with(tiny_version: VersionRef) -> None:
    scaling = AutoscalingParams(min_replicas=1, max_replicas=50)
    resources.check(build(tiny_version, ServeParams(autoscaling=scaling), verified=False))


@pytest.mark.parametrize(
    ("dials", "fits"),
    [
        ({"num_replicas": 1}, True),
        ({"num_replicas": 2}, False),
        ({"num_replicas": 3, "num_cpus": 0.5}, True),
        ({"num_gpus": 1.0}, False),
        ({"autoscaling": AutoscalingParams(min_replicas=1, max_replicas=9)}, True),
    ],
)
def test_an_update_starts_the_new_beside_the_old_only_where_both_fit(
    monkeypatch: pytest.MonkeyPatch, dials: dict[str, Any], fits: bool
) -> None:
    monkeypatch.setattr(resources.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(resources.ray, "available_resources", lambda: {"CPU": 1.5})
    assert resources.room_beside(ServeParams(**dials)) is fits
    monkeypatch.setattr(resources.ray, "is_initialized", lambda: False)
    assert not resources.room_beside(ServeParams(**dials))
