"""BentoML as its documentation advises: a batchable endpoint of one service."""

import os

import bentoml
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


@bentoml.service(traffic={"timeout": 60})
class Classifier:
    """Adaptive batching is BentoML's own."""

    def __init__(self) -> None:
        folder = os.environ["MODEL_FOLDER"]
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    @bentoml.api(batchable=True, batch_dim=0, max_batch_size=32, max_latency_ms=2000)
    def predict(self, texts: list[str]) -> list[dict[str, object]]:
        """Label and score of each text."""
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            scores = self.model(**inputs).logits.softmax(-1)
        best = scores.max(-1)
        return [
            {"label": self.model.config.id2label[int(label)], "score": float(score)}
            for label, score in zip(best.indices, best.values, strict=True)
        ]
