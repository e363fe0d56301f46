"""Files are whole or not there."""

from pathlib import Path

import pytest

from registry.files import new_folder, write_json, write_text


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as scratch:
        (scratch / "a").write_text("old")

    def fail() -> None:
        with new_folder(tmp_path / "out") as scratch:
            (scratch / "a").write_text("new")
            (scratch / "missing").read_text()

    with pytest.raises(FileNotFoundError):
        fail()
    assert (tmp_path / "out/a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_json_is_stable_and_refuses_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"b": 1, "a": "é"})
    assert (tmp_path / "x.json").read_text() == '{\n  "a": "é",\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"b": float("nan")})


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "x", "one")
    write_text(tmp_path / "x", "two")
    assert (tmp_path / "x").read_text() == "two"
    assert len(list(tmp_path.iterdir())) == 1
