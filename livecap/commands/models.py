"""`livecap models`: what is here, what can be pulled, what is the default."""

import sys

from livecap.checkpoints import catalogue

WIDE = 10_000  # columns: more than a row can have


def show_models() -> int:
    """A table on standard output, whole where that is no terminal -> exit status."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("parameters", justify="right")
    table.add_column("size", justify="right")
    table.add_column("languages")
    table.add_column("where", overflow="fold")
    for row in catalogue():
        table.add_row(
            row.name,
            row.state,
            "" if row.parameters is None else f"{row.parameters} M",
            f"{row.size} MB",
            row.languages or "",
            row.where,
        )
    # A pipe has no width, and names that are cut are of no use to a program.
    width = None if sys.stdout.isatty() else WIDE
    Console(width=width, markup=False, highlight=False).print(table)
    return 0
