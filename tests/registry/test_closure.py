"""The import closure is found by reading."""

from pathlib import Path

from registry.closure import import_closure


def test_imports_at_any_depth_and_inside_functions_count(tmp_path: Path) -> None:
    for name, text in {
        "pipeline/a.py": "from registry import b\nimport json\n",
        "registry/b.py": "def f():\n    from registry.c import thing\n",
        "registry/c.py": "import registry.b\n",
        "registry/unused.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert import_closure(tmp_path, "pipeline.a") == ("pipeline/a.py", "registry/b.py", "registry/c.py")
