"""A checkpoint's model in another precision, built where `package` can try it."""

from pathlib import Path

from registry.bundle import read_contract
from registry.files import read_json
from registry.runtimes import RUNTIMES
from registry.scorer import Forward


def build(checkpoint: Path, runtime: str, folder: Path, threads: int) -> Forward:
    """Write what this runtime needs beside the weights into `folder`, and load it on the CPU.

    Raises what the exporter raises on a model that it does not know.
    """
    if runtime.startswith("onnx"):
        from registry import onnx_build
        from registry.onnx_engine import FILE, OnnxForward

        onnx_build.build(checkpoint, read_contract(checkpoint).max_tokens, folder)
        return OnnxForward(folder / FILE, int(read_json(checkpoint / "config.json")["pad_token_id"]), threads)
    from registry.torch_engine import DTYPES, TorchForward

    return TorchForward(checkpoint, "cpu", DTYPES[RUNTIMES[runtime].precision])
