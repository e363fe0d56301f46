"""Ray Serve as its documentation writes it: one deployment, `@serve.batch`, the default proxy."""

import asyncio
import signal
import sys
import threading

import ray
import torch
from ray import serve
from starlette.requests import Request
from transformers import AutoModelForSequenceClassification, AutoTokenizer


@serve.deployment(max_ongoing_requests=128, ray_actor_options={"num_cpus": 1})
class Classifier:
    """Each text is a call of the batched method."""

    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.005)
    async def classify(self, texts: list[str]) -> list[dict[str, object]]:
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            scores = self.model(**inputs).logits.softmax(-1)
        best = scores.max(-1)
        return [
            {"label": self.model.config.id2label[int(label)], "score": float(score)}
            for label, score in zip(best.indices, best.values, strict=True)
        ]

    async def __call__(self, request: Request) -> list[dict[str, object]]:
        texts = (await request.json())["texts"]
        return list(await asyncio.gather(*map(self.classify, texts)))


if __name__ == "__main__":
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
    serve.run(Classifier.bind(sys.argv[1]), route_prefix="/predict")
    stop.wait()
    serve.shutdown()
    ray.shutdown()
