"""A small MCP server over standard input and output, for the tests: `python mcp_server.py LOG`.

It notes each call in the file LOG, so that a test sees what has reached the server.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Literal

from mcp.server.fastmcp import FastMCP, Image
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

LOG = Path(sys.argv[1])
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63f8cfc0f01f00050001ff56c72f0d0000000049454e44ae426082"
)

server = FastMCP("workshop", log_level="ERROR")


def note(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class Place(BaseModel):
    x: int = Field(ge=0)
    y: int


@server.tool(annotations=ToolAnnotations(readOnlyHint=True, idempotentHint=True))
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    note(f"add {a} {b}")
    return a + b


@server.tool(annotations=ToolAnnotations(destructiveHint=False, idempotentHint=True))
def move(to: Place, pace: Literal["walk", "run"] = "walk") -> str:
    """Move the robot."""
    note(f"move {to.x} {to.y} {pace}")
    return f"The robot has arrived at {to.x}, {to.y}."


@server.tool()
def slow(seconds: float) -> str:
    """Take a while."""
    note("slow begins")
    time.sleep(seconds)
    note("slow ends")
    return "late"


@server.tool()
def failing(why: str) -> str:
    """Fail."""
    note("failing")
    raise RuntimeError(why)


@server.tool()
def picture() -> Image:
    """Take a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def book(chars: int) -> str:
    """Read a whole book."""
    return f"Once {'x' * chars} the end."


@server.tool(annotations=ToolAnnotations(destructiveHint=True))
def die() -> str:
    """Break down."""
    note("die")
    os._exit(3)


if __name__ == "__main__":
    server.run()
