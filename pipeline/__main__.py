"""The commands beside the stages: python -m pipeline status | serve | rollback | params | ui."""

import importlib
import sys

from pipeline import stage

COMMANDS = {
    "status": "the chain from data to champion, what is stale and what mends it (--json)",
    "serve": "the champion over HTTP (--port, --host, --unverified)",
    "rollback": "the alias champion back to an earlier verified version (--to, --reason)",
    "params": "check params.yaml and print what it means",
    "ui": "MLflow's pages on this project's registry (--port)",
}


def main(argv: list[str]) -> None:
    """Run one command. Exits 2 with the list of commands when it is unknown."""
    if not argv or argv[0] not in COMMANDS:
        known = "\n".join(f"  {name:<10}{what}" for name, what in COMMANDS.items())
        asked_for_help = argv[:1] in (["-h"], ["--help"])
        if argv and not asked_for_help:
            print(f"there is no command {argv[0]!r}; a stage runs as python -m pipeline.STAGE", file=sys.stderr)
        print(f"usage: python -m pipeline COMMAND\n{known}", file=sys.stdout if asked_for_help else sys.stderr)
        sys.exit(stage.DONE if asked_for_help else stage.USAGE)
    module = importlib.import_module(f"pipeline.{'show_params' if argv[0] == 'params' else argv[0]}")
    stage.run(argv[0], lambda: module.main(argv[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
