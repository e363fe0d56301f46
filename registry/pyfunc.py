"""The scorer as an MLflow model (models-from-code): what mlflow.pyfunc and MLflow's pages run. No pickle in it.

MLflow executes this file when it saves and loads the model. Our own replicas load the bundle without it. It answers
in fp32, which every bundle keeps, whatever `serve.precision` says.
"""

from pathlib import Path
from typing import Any

import mlflow.models
import pandas as pd
from mlflow.pyfunc.model import PythonModel, PythonModelContext

LARGEST_BATCH = 32
"""Texts in one forward."""


class ScorerModel(PythonModel):
    """Texts in, one row a text out: label, score, scores by label, truncated."""

    def load_context(self, context: PythonModelContext) -> None:
        """Re-hash the bundle that came with the model and load it."""
        from registry import scorer

        self._scorer = scorer.load(Path(context.artifacts["bundle"]))

    def predict(self, context: PythonModelContext, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:  # noqa: ARG002
        """Column `text` in; same order, same count out."""
        texts = model_input["text"].tolist()
        answers = []
        for start in range(0, len(texts), LARGEST_BATCH):
            answers += self._scorer(texts[start : start + LARGEST_BATCH])
        return pd.DataFrame(
            {
                "label": [answer.label for answer in answers],
                "score": [answer.score for answer in answers],
                "scores": [answer.scores for answer in answers],
                "truncated": [answer.truncated for answer in answers],
            }
        )


mlflow.models.set_model(ScorerModel())
