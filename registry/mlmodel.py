"""The wrapping that makes a bundle an MLflow model: MLmodel, signature, input example, requirements, our code."""

import importlib.metadata
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from registry.closure import import_closure
from registry.contract import Contract

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
CODE = "code"
LIBRARIES = ("mlflow", "torch", "transformers", "tokenizers", "numpy", "pandas", "pydantic")
"""What the scorer needs elsewhere; MLflow writes them down with the versions of here."""


def wrap(folder: Path, contract: Contract, bundle_bytes: int, bundle: str, model_id: str, run_id: str) -> None:
    """Fill an empty folder with all of an MLflow model but the bundle, which goes beside it under the name `bundle`."""
    from mlflow.models import Model, ModelSignature
    from mlflow.pyfunc import FLAVOR_NAME, save_model
    from mlflow.types.schema import ColSpec, DataType, Map, Schema

    signature = ModelSignature(
        inputs=Schema([ColSpec(DataType.string, "text")]),
        outputs=Schema(
            [
                ColSpec(DataType.string, "label"),
                ColSpec(DataType.double, "score"),
                ColSpec(Map(DataType.double), "scores"),
                ColSpec(DataType.boolean, "truncated"),
            ]
        ),
    )
    model = Model(model_uuid=model_id, run_id=run_id, model_id=model_id)
    save_model(
        folder,
        mlflow_model=model,
        python_model=str(ROOT / "registry/pyfunc.py"),
        signature=signature,
        input_example=_example(contract),
        pip_requirements=[f"{name}=={importlib.metadata.version(name).split('+')[0]}" for name in LIBRARIES],
    )
    _copy_code(folder / CODE)
    flavor = model.flavors[FLAVOR_NAME]
    # the loader looks at the name alone; the path is of the machine that saved it
    flavor["model_code_path"] = "pyfunc.py"
    flavor["code"] = CODE
    flavor["artifacts"] = {bundle: {"path": bundle, "uri": bundle}}
    model.model_size_bytes = bundle_bytes
    model.save(str(folder / "MLmodel"))


def _example(contract: Contract) -> "pd.DataFrame":
    import pandas as pd

    texts = [canary.text for canary in contract.canaries[:2]] or ["a place to start"]
    return pd.DataFrame({"text": texts})


def _copy_code(folder: Path) -> None:
    for name in import_closure(ROOT, "registry.scorer"):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    (folder / "registry/__init__.py").touch()
