"""Pieces of the report's page."""

from collections.abc import Sequence
from html import escape


def table(columns: Sequence[str], rows: str) -> str:
    """A table; `rows` is markup, `columns` are ours."""
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def card(title: str, content: str) -> str:
    """A titled box; `content` is markup."""
    return f"<section><h3>{escape(title)}</h3>{content}</section>"
