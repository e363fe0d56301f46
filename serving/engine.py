"""How a replica loads a bundle, as the serve params and the bundle decide it together."""

from pathlib import Path

from registry.runtimes import Engine, chosen
from serving import sizes
from serving.params import ServeParams


def device_kind(params: ServeParams) -> str:
    """`cuda` when a replica is given GPU, else `cpu`."""
    return "cuda" if params.num_gpus > 0 else "cpu"


def engine_of(bundle: Path, params: ServeParams) -> Engine:
    """The runtime of `serve.precision`, where it runs, and on how many threads. Raises NotKept."""
    device = device_kind(params)
    return Engine(chosen(bundle, params.precision, device).name, device, sizes.threads(params))
