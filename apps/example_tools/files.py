"""Reading files below one folder, and nothing outside of it.

A path is resolved and checked first; the file is then opened folder by folder from the root without following
links, so that a link put in the way meanwhile leads nowhere. Devices, pipes and sockets are never opened.
What is in the folder can be read under each of its names, and a hard link to a file elsewhere is one.
Needs a POSIX system.
"""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from langchain_core.tools import BaseTool, tool

MAX_FILE_BYTES = 5_000_000
MAX_LINES = 1000
MAX_LINE_CHARS = 2000
MAX_ENTRIES = 500
MAX_PATH_CHARS = 4096
"""As much as Linux takes; following a longer path part by part would take long."""
_MAX_SHOWN = 200


def file_tools(root: Path | str) -> list[BaseTool]:
    """Tools `read_file` and `list_files` for what is below a folder.

    Args:
        root: The folder. The model's paths are relative to it; links that lead out of it are refused.

    Raises:
        ValueError: There is no such folder.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise ValueError(f"{str(root)!r} is not a folder; give one that exists")
    base = folder.resolve()

    @tool
    def read_file(
        path: Annotated[str, "Path of the file, relative to the shared folder"],
        offset: Annotated[int, "Number of lines to skip"] = 0,
        limit: Annotated[int, f"Number of lines to read, at most {MAX_LINES}"] = 200,
    ) -> str:
        """Read a text file of the shared folder, a page of lines at a time."""
        if offset < 0 or limit < 1:
            raise ValueError(
                f"offset {offset}, limit {limit}: give an offset of 0 or more, a limit of 1 or more"
            )
        with _opened(base, path) as descriptor:
            return _page(_lines(descriptor, path), offset, min(limit, MAX_LINES))

    @tool
    def list_files(path: Annotated[str, "Path of the folder, relative to the shared folder"] = ".") -> str:
        """List one folder of the shared folder: sub-folders end in "/", files have their size in bytes."""
        with _opened(base, path) as descriptor:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise NotADirectoryError(f"{path!r} is a file; read it with read_file")
            names = os.listdir(descriptor)  # noqa: PTH208 - of a descriptor, not a path
            shown = [_entry(name, descriptor) for name in heapq.nsmallest(MAX_ENTRIES, names)]
        more = len(names) - MAX_ENTRIES
        return "\n".join([*shown, f"… and {more} more"] if more > 0 else shown) or "(the folder is empty)"

    return [read_file, list_files]


@contextmanager
def _opened(base: Path, path: str) -> Iterator[int]:
    """A descriptor of a file or folder below `base`.

    Raises:
        ValueError: No path at all.
        PermissionError: The path leads out of `base`.
        OSError: There is no such file, or it cannot be read.
    """
    parts = _inside(base, path).parts
    try:
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts:
                _check_kind(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode, path)
                # Without waiting: opening a pipe put there meanwhile would last until somebody writes to it.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                inner = os.open(part, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(f"{_short(path)} cannot be read: {error.strerror}") from None


def _inside(base: Path, path: str) -> Path:
    """Where the path leads, relative to `base`, with all links followed."""
    if "\0" in path:
        raise ValueError(f"{_short(path)} is no path: it holds a NUL character")
    if len(path) > MAX_PATH_CHARS:
        raise ValueError(f"{_short(path)} is no path: it has {len(path)} characters")
    if ".." in Path(path).parts:
        raise PermissionError(
            f"{_short(path)} is refused: '..' is not accepted; paths begin at the shared folder"
        )
    try:
        resolved = (base / path).resolve()
    except RuntimeError:  # its text would tell where the folder is
        raise ValueError(f"{_short(path)} is no path: its links lead back to themselves") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{_short(path)} is no path: {getattr(error, 'strerror', None) or error}") from None
    if not resolved.is_relative_to(base):
        raise PermissionError(f"{_short(path)} is refused: it leads out of the shared folder")
    return resolved.relative_to(base)


def _check_kind(mode: int, path: str) -> None:
    """Refuse devices, pipes and sockets: opening one may already do something.

    A link passes: opening refuses it.
    """
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        raise ValueError(f"{_short(path)} is not a regular file")


def _lines(descriptor: int, path: str) -> list[str]:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{_short(path)} is a folder; list it with list_files")
    _check_kind(mode, path)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"{_short(path)} is larger than {MAX_FILE_BYTES} bytes, the most that is read")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ValueError(f"{_short(path)} is binary ({len(content)} bytes), not UTF-8 text")
    return text.removesuffix("\n").split("\n") if text else []


def _page(lines: list[str], offset: int, limit: int) -> str:
    if offset >= len(lines):
        return f"(no lines here: the file has {len(lines)})"
    end = min(offset + limit, len(lines))
    page = "\n".join(_cut(line.removesuffix("\r")) for line in lines[offset:end])
    if offset == 0 and end == len(lines):
        return page
    rest = f"; go on with offset {end}" if end < len(lines) else ""
    return f"{page}\n(lines {offset + 1} to {end} of {len(lines)}{rest})"


def _cut(line: str) -> str:
    more = len(line) - MAX_LINE_CHARS
    return f"{line[:MAX_LINE_CHARS]}… ({more} more characters)" if more > 0 else line


def _entry(name: str, folder: int) -> str:
    shown = name if name.isprintable() else repr(name)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return f"{shown} (gone)"
    if stat.S_ISLNK(found.st_mode):
        return f"{shown} (link)"
    if stat.S_ISDIR(found.st_mode):
        return f"{shown}/"
    return f"{shown} ({found.st_size})" if stat.S_ISREG(found.st_mode) else f"{shown} (special)"


def _short(path: str) -> str:
    return repr(path if len(path) <= _MAX_SHOWN else f"{path[:_MAX_SHOWN]}…")
