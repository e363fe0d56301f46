"""Dials of package and registry: the `package` and `registry` branches of params.yaml."""

from typing import Annotated

from pydantic import Field

from registry.branch import Branch


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
