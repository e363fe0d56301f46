"""The strict reading of a request body."""

import json
import re
from dataclasses import dataclass

from registry.contract import has_lone_surrogate, is_visible
from serving.errors import ApiError

# A request is two levels deep; anything near this is an attack on the parser, whatever Python's own limit is.
MAX_DEPTH = 32
# An unfinished string ends with the body: else each of its escaped quotes would begin another search to the end.
_STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a request, and how they came."""

    texts: list[str]
    listed: bool

    def field(self, index: int) -> str:
        """The name of a text's place in the request."""
        return f"texts[{index}]" if self.listed else "text"


def read_texts(body: bytes, max_texts: int) -> Texts:
    """The texts of a request body. Raises ApiError: 400, 413 or 422."""
    tree = parse(body)
    if not isinstance(tree, dict):
        raise ApiError(422, "body_type", 'the body must be an object: {"text": "…"} or {"texts": ["…"]}')
    unknown = tree.keys() - {"text", "texts"}
    if unknown:
        name = json.dumps(min(unknown))[:80]
        raise ApiError(422, "field_unknown", f"the field {name} is not known; send text or texts")
    if len(tree) != 1:
        raise ApiError(422, "field_choice", "send exactly one of the fields text and texts")
    if "text" in tree:
        return Texts([_text(tree["text"], "text")], listed=False)
    return Texts(_texts(tree["texts"], max_texts), listed=True)


def _texts(value: object, max_texts: int) -> list[str]:
    if not isinstance(value, list):
        raise ApiError(422, "field_type", "texts must be a list of strings", "texts")
    if not value:
        raise ApiError(422, "list_empty", "texts must hold at least one text", "texts")
    if len(value) > max_texts:
        raise ApiError(413, "too_many_texts", f"texts holds {len(value)} texts; at most {max_texts} are taken", "texts")
    return [_text(text, f"texts[{index}]") for index, text in enumerate(value)]


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise ApiError(422, "field_type", f"{field} must be a string", field)
    if not is_visible(value):
        raise ApiError(422, "text_empty", f"{field} has no visible characters", field)
    return value


def parse(body: bytes) -> object:
    """Strict JSON: UTF-8 (one byte-order mark is skipped), no NaN, no twin keys, no lone surrogates, no towers.

    Numbers are read as 0: no field is a number, and a 5,000-digit one costs nothing so. Raises ApiError 400.
    """
    try:
        text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ApiError(400, "not_utf8", f"the body is not UTF-8 (byte {error.start})") from None
    if _depth(text) > MAX_DEPTH:
        raise ApiError(400, "too_deep", f"the body is nested deeper than {MAX_DEPTH} levels")
    try:
        tree = json.loads(
            text,
            parse_int=lambda _: 0,
            parse_float=lambda _: 0.0,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_twins,
        )
    except json.JSONDecodeError as error:
        raise ApiError(400, "not_json", f"the body is not JSON: {error.msg} (character {error.pos})") from None
    if _ESCAPED_SURROGATE.search(text) and _any_lone_surrogate(tree):
        raise ApiError(400, "lone_surrogate", "a string holds half a character (a lone surrogate)")
    return tree


def _depth(text: str) -> int:
    """How deep brackets nest, at most; exact only when there are enough of them to matter."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0
    deepest = depth = 0
    for char in re.sub(r"[^\[\]{}]", "", _STRING.sub("", text)):
        depth += 1 if char in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse_constant(name: str) -> None:
    raise ApiError(400, "not_json", f"the body is not JSON: {name} is not a JSON value")


def _refuse_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ApiError(400, "twin_keys", "an object of the body holds the same key twice")
    return tree


def _any_lone_surrogate(tree: object) -> bool:
    if isinstance(tree, str):
        return has_lone_surrogate(tree)
    if isinstance(tree, list):
        return any(map(_any_lone_surrogate, tree))
    if isinstance(tree, dict):
        return any(has_lone_surrogate(key) or _any_lone_surrogate(value) for key, value in tree.items())
    return False
