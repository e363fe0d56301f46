"""Which engines can run a bundle: in which precision, on which device, and which of them a bundle keeps."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from registry.errors import Refused

Precision = Literal["fp32", "int8", "bf16", "fp16"]
Wanted = Literal["auto", "fp32", "int8", "bf16", "fp16"]

FP32 = "torch-fp32"
FOLDER = "runtimes"
"""Below a bundle: a folder for every kept runtime but FP32, which the bundle itself is."""
PARITY = "parity.json"
"""In that folder: what was measured when it was kept."""


@dataclass(frozen=True)
class Runtime:
    """An engine in one precision."""

    name: str
    precision: Precision
    devices: tuple[str, ...]
    """Where it is worth running."""
    tolerance: float
    """How far a score may be from the one recorded at packaging: other machines round otherwise."""


RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        # Fastest first. Rounding to 4 decimals, other CPUs' kernels and other batch shapes move an fp32 score by far
        # less than 1e-3; half precision keeps 8 (bf16) or 11 (fp16) bits; int8 kernels differ in how they saturate.
        Runtime("onnx-int8", "int8", ("cpu",), 3e-2),
        Runtime("torch-bf16", "bf16", ("cuda",), 3e-2),
        Runtime("torch-fp16", "fp16", ("cuda",), 1e-2),
        Runtime(FP32, "fp32", ("cpu", "cuda"), 1e-3),
    )
}
BY_PRECISION: dict[str, Runtime] = {runtime.precision: runtime for runtime in RUNTIMES.values()}


class NotKept(Refused):
    """The bundle has no runtime of the precision that was asked for, or it does not run on the device."""


@dataclass(frozen=True)
class Engine:
    """How a bundle is loaded."""

    runtime: str = FP32
    device: str = "cpu"
    threads: int = 1
    """Of a forward on a CPU."""

    @property
    def rounding(self) -> float:
        """How far rounding alone may move a score from what was computed on the CPU or beside other batch-mates.

        In fp32 and int8 on a CPU that is below anything a gate looks at.
        """
        runtime = RUNTIMES[self.runtime]
        return runtime.tolerance if self.device != "cpu" or "cpu" not in runtime.devices else 0.0


def kept(bundle: Path) -> tuple[Runtime, ...]:
    """The runtimes that a bundle holds, fastest first."""
    return tuple(
        one for one in RUNTIMES.values() if one.name == FP32 or (bundle / FOLDER / one.name / PARITY).is_file()
    )


def chosen(bundle: Path, wanted: Wanted, device: str) -> Runtime:
    """The runtime that answers: for `auto` the fastest kept one of the device. Raises NotKept, with the remedy."""
    held = kept(bundle)
    if wanted == "auto":
        return next(one for one in held if device in one.devices)
    runtime = BY_PRECISION[wanted]
    if device not in runtime.devices:
        raise NotKept(f"serve.precision: {wanted} does not run on {device}; ask for auto, or for fp32.")
    if runtime not in held:
        raise NotKept(
            f"serve.precision is {wanted}, and {bundle} keeps {', '.join(one.precision for one in held)}. Ask for "
            "auto; or put it into package.precisions and run dvc repro for a new version (artifacts/package.json says "
            "why one was not kept)."
        )
    return runtime
