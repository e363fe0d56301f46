"""The two ways a command can end badly (docs/ARCHITECTURE.md, exit codes).

Modules subclass these beside the code that raises them; `pipeline.stage` turns them into exit codes.
"""


class Refused(Exception):
    """The data, the params or the model is not good enough: exit 1. The message says what, where, and what to do."""


class MachineFault(Exception):
    """The machine cannot do it now (port taken, no GPU, disk full): exit 3. A retry can help; no model is judged."""
