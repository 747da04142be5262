"""`livecap models`: what is here, what can be pulled, what is the default."""

from livecap.checkpoints import catalogue


def show_models() -> int:
    """A table on standard output -> exit status."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("name", "state", "parameters", "size", "languages", "where"):
        table.add_column(title, justify="right" if title in ("parameters", "size") else "left")
    for row in catalogue():
        table.add_row(
            row.name,
            row.state,
            "" if row.parameters is None else f"{row.parameters} M",
            f"{row.size} MB",
            row.languages or "",
            row.where,
        )
    Console(soft_wrap=True).print(table)
    return 0
