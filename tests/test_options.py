"""The names that we use of other people's APIs exist in the installed versions; private ones are named here."""

import importlib
import inspect

import mlflow.pyfunc
import optuna
import pytest
import ray
import ray.data
import ray.train
import ray.train.torch
import ray.tune
from mlflow import MlflowClient
from ray import serve
from ray.serve.config import AutoscalingConfig, HTTPOptions
from ray.tune.search.optuna import OptunaSearch
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from registry.closure import PACKAGES
from serving.app import model_options
from serving.params import AutoscalingParams, ServeParams
from tests.test_architecture import imports, sources

USED = {
    ray.init: {
        "address",
        "num_cpus",
        "include_dashboard",
        "log_to_driver",
        "logging_level",
        "runtime_env",
    },
    ray.train.ScalingConfig: {"num_workers", "use_gpu", "resources_per_worker"},
    ray.train.RunConfig: {"name", "storage_path", "failure_config"},
    ray.train.FailureConfig: {"max_failures"},
    ray.train.torch.TorchTrainer: {"train_loop_per_worker", "train_loop_config", "scaling_config", "run_config"},
    ray.tune.TuneConfig: {
        "max_concurrent_trials",
        "num_samples",
        "reuse_actors",
        "scheduler",
        "search_alg",
        "time_budget_s",
        "trial_dirname_creator",
        "trial_name_creator",
    },
    OptunaSearch: {"space", "metric", "mode", "points_to_evaluate", "sampler"},
    optuna.samplers.TPESampler: {"seed", "n_startup_trials"},
    ray.tune.RunConfig: {"name", "storage_path", "verbose"},
    ray.tune.schedulers.ASHAScheduler: {"max_t", "grace_period", "reduction_factor", "time_attr"},
    serve.start: {"proxy_location", "http_options"},
    serve.run_many: {"targets", "wait_for_applications_running"},
    serve.batch: {"max_batch_size", "batch_wait_timeout_s", "max_concurrent_batches"},
    mlflow.pyfunc.save_model: {"path", "python_model", "signature", "input_example", "pip_requirements", "code_paths"},
    MlflowClient: {"tracking_uri", "registry_uri"},
    MlflowClient.set_registered_model_alias: {"name", "alias", "version"},
}

PRIVATE = (
    "ray._private.worker.print_worker_logs",
    "ray._private.worker.stdout_deduplicator",
    "ray.serve.context._get_global_client",
)
"""Names without a promise that we lean on; an upgrade starts here."""


@pytest.mark.parametrize("function", USED, ids=lambda function: getattr(function, "__qualname__", str(function)))
def test_every_option_that_we_use_is_in_the_installed_signature(function: object) -> None:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    assert USED[function] <= set(parameters)


def test_ray_takes_a_folder_for_its_session() -> None:
    assert "_temp_dir" in inspect.getsource(ray.init)


@pytest.mark.parametrize("name", PRIVATE)
def test_every_private_name_that_we_lean_on_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_no_other_private_name_is_imported() -> None:
    theirs = {name for path in sources() for name in imports(path) if name.split(".")[0] not in PACKAGES}
    private = {name for name in theirs if any(part.startswith("_") for part in name.split("."))} - {"__future__"}
    modules = {name.rpartition(".")[0] for name in PRIVATE}
    assert private - modules <= set(PRIVATE)


def test_the_model_deployments_options_are_serves_own() -> None:
    scaled = ServeParams(autoscaling=AutoscalingParams(max_replicas=2))
    for params in (ServeParams(), scaled):
        options = model_options(params, 1)
        assert set(options) - {"num_replicas"} <= set(inspect.signature(serve.deployment).parameters)
    assert set(model_options(scaled, 1)["autoscaling_config"]) <= set(AutoscalingConfig.model_fields)
    assert {"host", "port", "request_timeout_s"} <= set(HTTPOptions.model_fields)


def test_the_models_loader_takes_what_we_give_it() -> None:
    # from_pretrained takes **kwargs: that dtype and the safety switches are read is seen in its source.
    source = inspect.getsource(PreTrainedModel.from_pretrained)
    assert all(name in source for name in ("dtype", "use_safetensors", "trust_remote_code", "local_files_only"))
    assert hasattr(AutoModelForSequenceClassification, "from_pretrained")


def test_the_names_of_old_tutorials_are_gone() -> None:
    assert not {"max_concurrent_queries", "target_num_ongoing_requests_per_replica"} & set(
        inspect.signature(serve.deployment).parameters
    )
    assert ray.__version__ >= "2.60"
