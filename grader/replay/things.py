"""Define the things that a name in a kernel can lead to."""

from __future__ import annotations

from dataclasses import dataclass

from grader.protocol.trace import Value
from grader.replay.language import Offered


@dataclass(frozen=True)
class KernelReference:
    """A name that leads to another function of the text."""

    index: int


@dataclass(frozen=True)
class Data:
    """A name that leads to plain data.

    value: the data, with stand-ins for functions, since data may hold the function that names it. told: the same
    in the trace.
    """

    value: object
    told: Value


@dataclass(frozen=True)
class Foreign:
    """A name that leads to a module or a function that Triton does not have."""

    path: str


@dataclass(frozen=True)
class Unknown:
    """A name that the recorder could not resolve, or that the grader refuses, and the reason.

    python: Triton's compiler would refuse it too.
    """

    rule: str
    python: bool = False


# A name that no line of the file binds. Triton meets it only if it compiles the line.
UNDEFINED = Unknown("no line of the file defines it", python=True)

Thing = Offered | KernelReference | Data | Foreign | Unknown
