"""The whole of params.yaml: every branch, and the rules between them. Checked before any work."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, model_validator

from pipeline import paths
from pipeline.cluster import RayParams
from pipeline.params import ParamsError, read, validate
from registry.gate_params import GateParams
from registry.params import PackageParams, RegistryParams
from serving.params import ListenParams, ServeParams
from training.params import DataParams, TrainParams, TuneParams


class Params(BaseModel, frozen=True, extra="forbid"):
    """All branches, in the order of the file."""

    data: DataParams
    tune: TuneParams
    train: TrainParams
    package: PackageParams
    registry: RegistryParams
    serve: ServeParams
    listen: ListenParams
    gates: GateParams
    ray: RayParams

    @model_validator(mode="after")
    def _what_serves_is_packaged(self) -> Self:
        if self.serve.precision not in {"auto", *self.package.precisions}:
            raise ValueError(
                f"serve.precision is {self.serve.precision}, and package.precisions {self.package.precisions} does not "
                "build it; put it there, or serve auto"
            )
        return self


def load_all(file: Path = paths.PARAMS) -> Params:
    """Every branch. Raises ParamsError that lists every fault of the file at once."""
    result = validate(read(file), Params, "params")
    if isinstance(result, list):
        faults = [line.replace("  params.", "  ", 1) for line in result]
        raise ParamsError("\n".join([f"{file} is not usable:", *faults]))
    return result
