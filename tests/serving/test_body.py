"""The strict reading of a request body."""

import json

import pytest

from serving.body import MAX_DEPTH, parse, read_texts
from serving.errors import ApiError
from serving.openapi import EXAMPLES
from serving.schema import PredictRequest

GOOD = [
    (b'{"text": "a place to start"}', ["a place to start"], False),
    (b'{"texts": ["one", "two"]}', ["one", "two"], True),
    (b'\xef\xbb\xbf{"text": "after a byte-order mark"}', ["after a byte-order mark"], False),
    (b'{"text": "\\ud83d\\ude00"}', ["\U0001f600"], False),
    ('{"text": "これはとても良いです。"}'.encode(), ["これはとても良いです。"], False),
    (b'{"text": "NaN"}', ["NaN"], False),
    (b'{"text": "' + b"[{" * 500 + b' \\" ["}', ["[{" * 500 + ' " ['], False),
    (b'{"text": " \\u0000x\\n"}', [" \x00x\n"], False),
]

BAD = [
    (b"", 400, "not_json"),
    (b"{", 400, "not_json"),
    (b'{"text": NaN}', 400, "not_json"),
    (b'{"text": Infinity}', 400, "not_json"),
    (b'{"text": "a"} x', 400, "not_json"),
    (b'{"text": "a\nb"}', 400, "not_json"),
    (b'{"text": "\xff"}', 400, "not_utf8"),
    ('{"text": "a"}'.encode("utf-16"), 400, "not_utf8"),
    ('{"text": "a"}'.encode("utf-16-le"), 400, "not_json"),
    (b'{"text": "\\ud83d"}', 400, "lone_surrogate"),
    (b'{"texts": ["fine", "half \\ude00"]}', 400, "lone_surrogate"),
    (b'{"texts": {"a": "\\ud83d"}}', 400, "lone_surrogate"),
    (b'{"text": "a", "extra": "\\ud83d"}', 400, "lone_surrogate"),
    (b'{"text": "a", "\\ud83d": 1}', 400, "lone_surrogate"),
    (b'{"text": "a", "text": "b"}', 400, "twin_keys"),
    (b"[" * 20_000 + b"]" * 20_000, 400, "too_deep"),
    (b'{"text": "a", "extra": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}", 400, "too_deep"),
    (b"[" * 1_000_000, 400, "too_deep"),
    (b'"' + b"[" * 1000, 400, "not_json"),
    (b"[]", 422, "body_type"),
    (b"null", 422, "body_type"),
    (b'"text"', 422, "body_type"),
    (b"1" * 5000, 422, "body_type"),
    (b'{"text": ' + b"1" * 5000 + b"}", 422, "field_type"),
    (b'{"text": 1e999}', 422, "field_type"),
    (b'{"text": null}', 422, "field_type"),
    (b'{"text": ["a"]}', 422, "field_type"),
    (b'{"texts": "a"}', 422, "field_type"),
    (b'{"texts": ["a", 1]}', 422, "field_type"),
    (b'{"texts": []}', 422, "list_empty"),
    (b"{}", 422, "field_choice"),
    (b'{"text": "a", "texts": ["b"]}', 422, "field_choice"),
    (b'{"text": "a", "temperature": 1}', 422, "field_unknown"),
    (b'{"text": ""}', 422, "text_empty"),
    (b'{"text": " \\n\\t"}', 422, "text_empty"),
    (b'{"text": "\\u200b\\ufeff"}', 422, "text_empty"),
    (b'{"texts": ["a", "b", "c", "d", "e"]}', 413, "too_many_texts"),
]


@pytest.mark.parametrize(("body", "texts", "listed"), GOOD)
def test_good_bodies_are_read_as_they_are(body: bytes, texts: list[str], listed: bool) -> None:
    read = read_texts(body, max_texts=4)
    assert (read.texts, read.listed) == (texts, listed)


@pytest.mark.parametrize(("body", "status", "kind"), BAD, ids=lambda value: str(value)[:40])
def test_s04_bad_bodies_are_refused_by_kind_and_can_be_answered(body: bytes, status: int, kind: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_texts(body, max_texts=4)
    assert (refused.value.status, refused.value.kind) == (status, kind)
    json.dumps(refused.value.body("id"), allow_nan=False).encode("utf-8")


def test_an_error_names_the_place_in_the_list() -> None:
    with pytest.raises(ApiError) as refused:
        read_texts(b'{"texts": ["a", "b", " "]}', max_texts=4)
    assert refused.value.field == "texts[2]"
    assert refused.value.message == "texts[2] has no visible characters"


def test_an_unknown_field_is_named_but_never_at_length() -> None:
    with pytest.raises(ApiError) as refused:
        read_texts(json.dumps({"text": "a", "é" * 10_000: 1}).encode(), max_texts=4)
    assert "\\u00e9" in refused.value.message
    assert len(refused.value.message) < 200


def test_depth_is_judged_by_brackets_outside_of_strings_only() -> None:
    tower = b'{"text": "a", "x": ' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}"
    with pytest.raises(ApiError) as refused:
        read_texts(tower, max_texts=4)
    assert refused.value.kind == "field_unknown"


def test_the_examples_of_the_documentation_are_good_requests() -> None:
    for example in EXAMPLES.values():
        assert read_texts(json.dumps(example["value"]).encode(), max_texts=4).texts
        PredictRequest.model_validate(example["value"])


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_an_unfinished_string_of_escapes_is_read_once_and_not_once_a_quote(end: bytes) -> None:
    """Once a quote would be 250,000 times 1 MB: no timeout of a test would wait for it."""
    with pytest.raises(ApiError) as error:
        parse(b"[" * 33 + b'"' + b'\\"' * 500_000 + end)
    assert error.value.status == 400
