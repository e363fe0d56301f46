"""Dials of package and registry: the `package` and `registry` branches of params.yaml."""

from typing import Annotated

from pydantic import Field, field_validator

from registry.branch import Branch

REGISTRY_URIS = ("http://", "https://", "sqlite:///")
"""File stores are refused since MLflow 3.13, and other databases belong behind a server."""


class PackageParams(Branch):
    """What goes into the bundle beside the weights."""

    calibrate: bool = True
    """Fit one temperature on validation logits, so that a score is a probability."""


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
