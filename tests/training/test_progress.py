"""Progress is shown where somebody looks, and never in the way."""

import json
import time
from pathlib import Path

import pytest

from training import progress


def step(number: int, **more: object) -> dict[str, object]:
    return {"step": number, "steps": 40, "train_loss": 0.5, **more}


def test_notes_carry_their_time_and_one_line_each(tmp_path: Path) -> None:
    progress.note(tmp_path / "progress.jsonl", step(1))
    progress.note(tmp_path / "progress.jsonl", step(2))
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2] and all(line["time"] > 1e9 for line in lines)


def test_without_a_terminal_a_line_comes_now_and_then_and_what_is_said_always(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.4)
    file = tmp_path / "progress.jsonl"

    def work() -> str:
        for number in range(1, 41):
            progress.note(file, step(number))
            time.sleep(0.03)
        progress.note(file, {"said": "epoch 1: fine"})
        return "result"

    assert progress.follow("train", file, work) == "result"
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "train: epoch 1: fine"
    assert 2 <= len(lines) <= 6 and "of 40, loss 0.500" in lines[0] and "s left" in lines[1]


def test_on_a_terminal_a_bar_is_drawn_without_colour(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    progress.note(tmp_path / "progress.jsonl", step(1))
    screen = progress.Screen("train", tmp_path / "none.jsonl")
    screen = progress.Screen("train", tmp_path / "later.jsonl")
    progress.note(tmp_path / "later.jsonl", step(20))
    screen.refresh()
    screen.close()
    said = capsys.readouterr().out
    assert "###############..............." in said and "\x1b[3" not in said


def test_lines_of_an_earlier_start_are_not_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "progress.jsonl"
    progress.note(file, {"said": "old"})
    progress.follow("train", file, lambda: progress.note(file, {"said": "new"}))
    assert capsys.readouterr().out == "train: new\n"


def test_what_the_work_raises_is_raised_here(tmp_path: Path) -> None:
    def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        progress.follow("train", tmp_path / "progress.jsonl", work)
