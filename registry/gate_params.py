"""Dials of the gates: the `gates` branch of params.yaml."""

from typing import Annotated

from pydantic import Field

from registry.branch import Branch

Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class Floors(Branch):
    """What a model must reach on test, whatever the baselines reach."""

    accuracy: Share
    macro_f1: Share


class BehaviourRates(Branch):
    """The share of data/behaviour.yaml's cases of each kind that must come out right."""

    minimum: Share = 0.9
    invariance: Share = 0.9
    direction: Share = 0.9


class GateParams(Branch):
    """The limits that a version must keep to be promoted."""

    min_accuracy: Share
    min_macro_f1: Share
    corpus_floors: dict[str, Floors] = Field(default_factory=dict)
    """`data.source` -> floors of a built-in corpus, in place of the two above."""
    max_drop: Share
    """How far the lower end of the 95 % interval of macro-F1 (candidate - champion) may fall below 0."""
    min_slice_accuracy: Share
    min_class_f1: Share
    min_support: Annotated[int, Field(ge=1)] = 30
    """Test rows that a slice or a class needs before its floor is judged."""
    max_calibration_error: Share
    min_behaviour: BehaviourRates = BehaviourRates()
    max_batch_bound: Share
    """fp32: how far a score may move with its batch-mates."""
    min_mean_batch: Annotated[float, Field(ge=1)] = 1.5
    """Texts in a forward, on average, under load."""
    max_p95_ms: Milliseconds
    """One client, one text a request."""
    min_share_of_raw: Share
    """Texts/s over HTTP under load, as a share of the raw forward in the same run."""
    enough_texts_per_s: Annotated[float, Field(ge=0)] = 50.0
    """Texts/s over HTTP that are enough whatever the raw forward does: HTTP itself bounds a small model."""
    min_share_of_matmul: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Operations/s of the raw forward, as a share of those of a plain matmul on the same threads."""
    forward_overhead_ms: Annotated[float, Field(ge=0)] = 10.0
    """Of a forward, for all that is no arithmetic; it is most of what a very small model takes."""
    max_health_s: Seconds = 1.0
    """What `/health` may take under full load; 95 of 100 answers are quicker."""
    full: bool = False
    """Also hold the fault drills and watch the memory: minutes more."""
    max_recovery_s: Seconds = 60.0
    """From a fault (a killed process, a hung model) to answers without failure."""
    max_memory_growth: Share = 0.03
    """Resident memory of a process in the last third of a steady load, as a share above that of the third before."""
    max_shutdown_s: Seconds = 30.0
    """From the order to stop under load to the app's end."""
    deploy_timeout_s: Seconds
    allow_new_labels: bool = False
