"""Dials of the gates: the `gates` branch of params.yaml."""

from typing import Annotated

from pydantic import Field

from registry.branch import Branch

Share = Annotated[float, Field(ge=0, le=1)]
Milliseconds = Annotated[float, Field(gt=0)]


class GateParams(Branch):
    """The limits that a version must keep to be promoted."""

    min_accuracy: Share
    min_macro_f1: Share
    max_drop: Share
    """How far the lower end of the 95 % interval of macro-F1 (candidate - champion) may fall below 0."""
    min_slice_accuracy: Share
    min_class_f1: Share
    max_calibration_error: Share
    max_batch_bound: Share
    """fp32: how far a score may move with its batch-mates."""
    max_p95_ms: Milliseconds
    """One client, one text a request."""
    min_share_of_raw: Share
    """Texts/s over HTTP under load, as a share of the raw forward in the same run."""
    deploy_timeout_s: Annotated[float, Field(gt=0)]
    allow_new_labels: bool = False
