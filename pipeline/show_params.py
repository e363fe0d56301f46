"""python -m pipeline params: check the whole of params.yaml and print what it means, derived values included."""

import argparse
import os

from pipeline.all_params import Params, load_all


def main(argv: list[str]) -> None:
    """Print every value and what follows from it. Raises ParamsError with all faults."""
    argparse.ArgumentParser(prog="python -m pipeline params", description=__doc__).parse_args(argv)
    params = load_all()
    for branch, values in params.model_dump(mode="json").items():
        print(f"{branch}:")
        for name, value in values.items():
            print(f"  {name}: {value}")
    print("what follows:")
    for line in _derived(params):
        print(f"  {line}")


def _derived(params: Params) -> list[str]:
    data, tune, serve = params.data, params.tune, params.serve
    searched = ", ".join(tune.space.named()) if tune.enabled else "nothing"
    replicas = serve.autoscaling.max_replicas if serve.autoscaling else serve.num_replicas
    needed = f"{replicas * serve.num_cpus:g} CPUs and {replicas * serve.num_gpus:g} GPUs"
    return [
        f"train share: {1 - data.val_fraction - data.test_fraction:.3g} of the rows",
        f"settings that the search decides: {searched}",
        f"model replicas: at most {replicas}, {needed} (this machine has {os.cpu_count()} CPUs)",
        f"device of the served model: {'cuda' if serve.num_gpus else 'cpu'}",
        f"address: http://{params.listen.host}:{params.listen.port}{params.listen.route_prefix}",
    ]
