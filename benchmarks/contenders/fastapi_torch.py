"""FastAPI and transformers as people write it: one request, one forward."""

import sys

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
app = FastAPI()


class Body(BaseModel):
    """What is asked."""

    texts: list[str]


@app.post("/predict")
def predict(body: Body) -> list[dict[str, object]]:
    """Label and score of each text."""
    inputs = tokenizer(body.texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        scores = model(**inputs).logits.softmax(-1)
    best = scores.max(-1)
    return [
        {"label": model.config.id2label[int(label)], "score": float(score)}
        for label, score in zip(best.indices, best.values, strict=True)
    ]


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
