"""What `build` and `choose` make of a version, the params and the environment."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from ray.serve.schema import ServeDeploySchema
from ruamel.yaml import YAML

from pipeline.params import read
from registry.bundle import BundleError, VersionRef
from serving import front
from serving.app import ApiKeysError, build, champion, model_options
from serving.choosing import NoChampion, NotVerified, ServedVersion, choose
from serving.params import AutoscalingParams, ServeParams
from tests import registered
from tests.champions import promoted

ROOT = Path(__file__).resolve().parents[2]


def test_every_option_we_set_exists_in_the_installed_serve() -> None:
    known = set(inspect.signature(serve.deployment).parameters)
    for params in (ServeParams(), ServeParams(autoscaling=AutoscalingParams(max_replicas=2))):
        options = model_options(params, constructor_retries=1)
        assert options.keys() <= known
        assert ("autoscaling_config" in options) != ("num_replicas" in options)


def test_two_deployments_joined_by_a_handle_fit_on_two_cores(tiny_version: VersionRef) -> None:
    app = build(tiny_version, ServeParams(num_replicas=2), verified=False)
    ingress = app._bound_deployment
    model = ingress.init_args[0]._bound_deployment
    assert (ingress.name, model.name) == ("Ingress", "Model")
    assert ingress.ray_actor_options["num_cpus"] == 0
    assert model.num_replicas * model.ray_actor_options["num_cpus"] == 2


def test_gpus_and_autoscaling_reach_the_model_deployment(tiny_version: VersionRef) -> None:
    scaling = AutoscalingParams(min_replicas=1, max_replicas=2)
    params = ServeParams(num_gpus=0.5, autoscaling=scaling)
    model = build(tiny_version, params, verified=False)._bound_deployment.init_args[0]._bound_deployment
    assert model.ray_actor_options["num_gpus"] == 0.5
    assert model.init_args[1].device == "cuda"
    assert model._deployment_config.autoscaling_config.max_replicas == 2
    assert model._deployment_config.autoscaling_config.target_ongoing_requests == 2


def test_keys_travel_as_digests_only(tiny_version: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVE_API_KEYS", " first ,second,")
    digests = build(tiny_version, ServeParams(), verified=False)._bound_deployment.init_args[-1]
    assert len(digests) == 2
    assert "first" not in json.dumps(digests)


def test_keys_that_are_set_but_empty_are_refused(tiny_version: VersionRef, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVE_API_KEYS", " , ")
    with pytest.raises(ApiKeysError, match="holds no key"):
        build(tiny_version, ServeParams(), verified=False)


@pytest.fixture
def args(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What deploy/serve.yaml would say about a registry of this test's own, with nothing in it."""
    monkeypatch.delenv("SERVE_API_KEYS", raising=False)
    home = registered.registry(tmp_path).home
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.uri)
    return {"registry": registered.PARAMS.model_dump(), "serve": ServeParams().model_dump()}


def test_only_the_champion_verified_for_this_graph_is_chosen(
    args: dict[str, Any], tiny_bundle: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoChampion, match="dvc repro"):
        choose(ServedVersion.model_validate(args), front.planned())
    version = promoted(tiny_bundle, registered.PARAMS, ServeParams(), tmp_path / "report.html")
    chosen = choose(ServedVersion.model_validate(args), front.planned())
    assert (chosen.version.digest, chosen.verified) == (version.digest, True)
    named = choose(ServedVersion.model_validate(args | {"version": version.version}), front.planned())
    assert named.version == chosen.version

    other = ServeParams(max_batch_size=16).model_dump()
    with pytest.raises(NotVerified, match="dvc repro"):
        choose(ServedVersion.model_validate(args | {"serve": other}), front.planned())
    unverified = choose(ServedVersion.model_validate(args | {"serve": other, "unverified": True}), front.planned())
    assert unverified.verified is False

    weights = chosen.version.folder / "model/model.safetensors"
    flipped = bytearray(weights.read_bytes())
    flipped[-1] ^= 1
    weights.write_bytes(bytes(flipped))
    with pytest.raises(BundleError, match=r"model\.safetensors differs.*register --again"):
        choose(ServedVersion.model_validate(args), front.planned())


def test_deploy_serve_yaml_is_valid_and_serves_the_graph_of_params_yaml() -> None:
    config = YAML(typ="safe").load(ROOT / "deploy/serve.yaml")
    ServeDeploySchema.model_validate(config)
    (app,) = config["applications"]
    assert app["import_path"] == f"{champion.__module__}:{champion.__name__}"
    given, params = ServedVersion.model_validate(app["args"]), read()
    assert given.serve == ServeParams.model_validate(params["serve"])
    assert given.registry.model_dump() == params["registry"]
    assert config["http_options"]["request_timeout_s"] == given.serve.request_timeout_s
    assert config["http_options"]["host"] == "127.0.0.1"
