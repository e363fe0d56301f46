"""What a graph needs of Ray, compared with what Ray has, before Serve would wait for it for ever."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import ray

from registry.errors import MachineFault
from serving.params import ServeParams

KINDS = ("CPU", "GPU")


class TooSmall(MachineFault):
    """Ray does not have what the graph needs."""


def check(app: Any) -> str:
    """One line with the sum. Raises TooSmall naming what is missing: Serve itself would deploy for ever."""
    deployments = list(_deployments(app))
    has = ray.cluster_resources()
    total: Counter[str] = Counter()
    terms = []
    for name, replicas, each in deployments:
        total.update({kind: replicas * amount for kind, amount in each.items()})
        terms.append(f"{name} {replicas} x {_shown(each)}")
        for kind, amount in each.items():
            if not any(node["Resources"].get(kind, 0) >= amount for node in ray.nodes() if node["Alive"]):
                raise TooSmall(
                    f"one replica of {name} needs {amount:g} {kind}, and no machine of Ray's has that. {_remedy(kind)}"
                )
    line = f"the graph needs {_shown(total)} ({', '.join(terms)}); Ray has {_shown(has)}"
    for kind in KINDS:
        if total[kind] > has.get(kind, 0) + 1e-9:
            raise TooSmall(f"{line}: {total[kind] - has.get(kind, 0):g} {kind} missing. {_remedy(kind)}")
    return line


def room_beside(params: ServeParams) -> bool:
    """Whether a second set of model replicas fits beside what runs, so that an update need not stop the old set first.

    False where Ray is not up yet: then nothing runs that could be updated.
    """
    if not ray.is_initialized():
        return False
    replicas = params.autoscaling.min_replicas if params.autoscaling else params.num_replicas
    free = ray.available_resources()
    needs = {"CPU": params.num_cpus, "GPU": params.num_gpus}
    return all(free.get(kind, 0) >= replicas * amount for kind, amount in needs.items())


def _deployments(app: Any) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Name, replicas at the start and each one's resources, for every deployment of an application."""
    deployment = app._bound_deployment
    options = deployment.ray_actor_options or {}
    scaling = deployment._deployment_config.autoscaling_config
    replicas = scaling.initial_replicas or scaling.min_replicas if scaling else deployment.num_replicas
    # Serve's own default is one CPU.
    yield deployment.name, replicas, {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0)}
    for argument in (*deployment.init_args, *deployment.init_kwargs.values()):
        if isinstance(argument, type(app)):
            yield from _deployments(argument)


def _shown(amounts: Any) -> str:
    return " and ".join(f"{amounts.get(kind, 0):g} {kind}" for kind in KINDS)


def _remedy(kind: str) -> str:
    if kind == "GPU":
        return "Set serve.num_gpus: 0 to serve on the CPU, or go where there is a GPU."
    return "Lower serve.num_cpus (fractions are allowed) or serve.num_replicas, or raise ray.num_cpus."
