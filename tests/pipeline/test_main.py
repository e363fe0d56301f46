"""The commands beside the stages."""

import pytest

from pipeline import stage
from pipeline.__main__ import COMMANDS, main


@pytest.mark.parametrize("argv", [[], ["stauts"]])
def test_an_unknown_command_is_a_usage_error_that_lists_the_known(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(argv)
    assert left.value.code == stage.USAGE
    listed = capsys.readouterr().err
    assert all(name in listed for name in COMMANDS)


def test_params_prints_what_the_file_means(capsys: pytest.CaptureFixture[str]) -> None:
    main(["params"])
    assert "train share: 0.8 of the rows" in capsys.readouterr().out
