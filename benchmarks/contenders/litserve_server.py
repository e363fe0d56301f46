"""LitServe as its documentation advises: a LitAPI with dynamic batching."""

import sys

import litserve as ls
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


class Api(ls.LitAPI):
    """Each request holds a list of texts; a batch of requests is one forward."""

    def setup(self, device: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
        self.model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval().to(device)

    def decode_request(self, request: dict[str, list[str]]) -> list[str]:
        return request["texts"]

    def batch(self, inputs: list[list[str]]) -> list[list[str]]:
        return inputs

    def unbatch(self, output: list[list[dict[str, object]]]) -> list[list[dict[str, object]]]:
        return output

    def predict(self, requests: list[list[str]]) -> list[list[dict[str, object]]]:
        texts = [text for one in requests for text in one]
        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            scores = self.model(**inputs).logits.softmax(-1)
        best = scores.max(-1)
        said = iter(
            {"label": self.model.config.id2label[int(label)], "score": float(score)}
            for label, score in zip(best.indices, best.values, strict=True)
        )
        return [[next(said) for _ in one] for one in requests]

    def encode_response(self, output: list[dict[str, object]]) -> dict[str, object]:
        return {"predictions": output}


if __name__ == "__main__":
    server = ls.LitServer(Api(max_batch_size=32, batch_timeout=0.005), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="warning")
