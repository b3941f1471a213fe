"""Print the widest of several tables that fits the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table


@dataclass(frozen=True)
class Widest:
    """Several forms of one table, from wide to narrow; the first that fits is printed."""

    tables: tuple[Table, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Measured in a wider space: rich never reports more than the space it has.
        room = options.update(width=1000)
        fitting = (one for one in self.tables if Measurement.get(console, room, one).maximum <= options.max_width)
        yield next(fitting, self.tables[-1])
