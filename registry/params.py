"""Dials of package and registry: the `package` and `registry` branches of params.yaml."""

from typing import Annotated

from pydantic import Field, field_validator

from registry.branch import Branch
from registry.runtimes import Precision

REGISTRY_URIS = ("http://", "https://", "sqlite:///")
"""File stores are refused since MLflow 3.13, and other databases belong behind a server."""


class PackageParams(Branch):
    """What goes into the bundle beside the weights."""

    calibrate: bool = True
    """Fit one temperature on validation logits, so that a score is a probability."""
    precisions: list[Precision] = ["fp32", "int8"]  # noqa: RUF012 - pydantic copies it
    """What else the model is built in beside fp32; a runtime is kept when it passes the two limits below."""
    min_agreement: Annotated[float, Field(ge=0, le=1)] = 0.975
    """Share of validation rows whose label must be that of fp32."""
    max_f1_drop: Annotated[float, Field(ge=0, le=1)] = 0.005
    """How far macro-F1 on validation may be below that of fp32."""

    @field_validator("precisions")
    @classmethod
    def _fp32_first(cls, precisions: list[Precision]) -> list[Precision]:
        if "fp32" not in precisions or len(set(precisions)) < len(precisions):
            raise ValueError("each precision once, and fp32 among them: it is what the others are compared with")
        return precisions


class RegistryParams(Branch):
    """Under which names MLflow keeps the versions."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    """The registered model: letters, digits, `_ . -`, so that it stands in a URI and on any server."""
    experiment: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
    tracking_uri: str | None = None
    """An MLflow server; the environment's MLFLOW_TRACKING_URI wins; null: sqlite beside the DVC cache."""

    @field_validator("tracking_uri")
    @classmethod
    def _can_hold_a_registry(cls, uri: str | None) -> str | None:
        if uri is not None and not uri.startswith(REGISTRY_URIS):
            raise ValueError(
                "MLflow 3 keeps no registry there; use http(s)://<MLflow server>, sqlite:///<path>/mlflow.db, or null"
            )
        return uri
