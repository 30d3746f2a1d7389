from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

from turnflow.apps.example_tools import file_tools
from turnflow.apps.example_tools.files import MAX_ENTRIES, MAX_FILE_BYTES, MAX_LINE_CHARS, MAX_LINES

REFUSALS = (ValueError, OSError)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    (folder / "docs").mkdir(parents=True)
    (folder / "poem.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "docs" / "notes.md").write_text("# 笔记", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "shared-not").mkdir()
    (tmp_path / "shared-not" / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def tools(root: Path) -> list[BaseTool]:
    return file_tools(root)


def read(tools: list[BaseTool], path: str, **options: int) -> str:
    return str(tools[0].invoke({"path": path, **options}))


def listing(tools: list[BaseTool], path: str = ".") -> str:
    return str(tools[1].invoke({"path": path}))


def test_names_and_descriptions(tools: list[BaseTool]) -> None:
    assert [tool.name for tool in tools] == ["read_file", "list_files"]
    assert all(tool.description for tool in tools)


def test_a_folder_is_listed(root: Path, tools: list[BaseTool]) -> None:
    (root / "a\nb").touch()
    (root / "none").mkdir()
    assert listing(tools) == "'a\\nb' (0)\ndocs/\nnone/\npoem.txt (14)"
    assert listing(tools, "docs") == "notes.md (8)"
    assert listing(tools, "none") == "(the folder is empty)"


def test_files_are_read(root: Path, tools: list[BaseTool]) -> None:
    (root / "empty").touch()
    (root / "windows").write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert read(tools, "poem.txt") == "one\ntwo\nthree"
    assert read(tools, "./docs//notes.md") == "# 笔记"
    assert read(tools, str(root / "poem.txt")) == "one\ntwo\nthree"
    assert read(tools, "windows") == "a\nb"
    assert read(tools, "empty") == "(no lines here: the file has 0)"


def test_pages(root: Path, tools: list[BaseTool]) -> None:
    assert read(tools, "poem.txt", limit=2) == "one\ntwo\n(lines 1 to 2 of 3; go on with offset 2)"
    assert read(tools, "poem.txt", offset=2, limit=2) == "three\n(lines 3 to 3 of 3)"
    assert read(tools, "poem.txt", offset=3) == "(no lines here: the file has 3)"
    (root / "long").write_text("x\n" * (MAX_LINES + 1), encoding="utf-8")
    assert read(tools, "long", limit=10**9).count("x\n") == MAX_LINES
    for wrong in ({"offset": -1}, {"limit": 0}):
        with pytest.raises(ValueError, match="give an offset of 0 or more"):
            read(tools, "poem.txt", **wrong)


@pytest.mark.parametrize(
    ("path", "error", "reason"),
    [
        ("missing.txt", FileNotFoundError, "'missing.txt' cannot be read: No such file"),
        ("docs", IsADirectoryError, "is a folder; list it with list_files"),
        ("", IsADirectoryError, "is a folder"),
        ("poem.txt/x", NotADirectoryError, "cannot be read"),
        ("x" * 4000, OSError, "File name too long"),
        ("x/" * 500_000, ValueError, "is no path: it has 1000000 characters"),
        ("\ud800", ValueError, "is no path"),
        ("a\0b", ValueError, "NUL"),
    ],
)
def test_what_cannot_be_read_says_why(
    tools: list[BaseTool], path: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason) as raised:
        read(tools, path)
    assert len(str(raised.value)) < 400


def test_a_file_cannot_be_listed(tools: list[BaseTool]) -> None:
    with pytest.raises(NotADirectoryError, match="is a file; read it with read_file"):
        listing(tools, "poem.txt")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "../shared-not/secret.txt",
        "docs/../../secret.txt",
        "docs/../poem.txt",
        "missing/../../secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "..",
        "/proc/self/environ",
    ],
)
def test_no_path_leads_out(tools: list[BaseTool], path: str) -> None:
    for tool in tools:
        with pytest.raises(PermissionError, match="is refused"):
            tool.invoke({"path": path})


def test_a_path_beside_the_root_is_refused(root: Path, tools: list[BaseTool]) -> None:
    with pytest.raises(PermissionError, match="is refused"):
        read(tools, f"{root}-not/secret.txt")


def test_links_that_lead_out_are_refused_in_every_part(root: Path, tools: list[BaseTool]) -> None:
    (root / "file_link").symlink_to(root.parent / "secret.txt")
    (root / "folder_link").symlink_to(root.parent)
    (root / "relative_link").symlink_to("../secret.txt")
    (root / "docs" / "chain").symlink_to("../folder_link")
    for path in (
        "file_link",
        "relative_link",
        "folder_link",
        "folder_link/secret.txt",
        "docs/chain/secret.txt",
    ):
        for tool in tools:
            with pytest.raises(PermissionError, match="leads out of the shared folder"):
                tool.invoke({"path": path})
    assert "file_link (link)" in listing(tools)
    assert "secret" not in listing(tools)


def test_links_inside_are_followed_and_loops_refused(root: Path, tools: list[BaseTool]) -> None:
    (root / "inner").symlink_to("docs")
    (root / "loop").symlink_to("loop")
    assert read(tools, "inner/notes.md") == "# 笔记"
    with pytest.raises(REFUSALS, match=r"lead back to themselves|symbolic links|cannot be read"):
        read(tools, "loop")


def test_a_root_that_is_a_link_is_the_folder_that_it_leads_to(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    assert read(file_tools(link), "poem.txt") == "one\ntwo\nthree"


def test_a_folder_swapped_for_a_link_after_the_check_gains_nothing(
    root: Path, tools: list[BaseTool], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "docs" / "secret.txt").write_text("mine", encoding="utf-8")
    real_open = os.open

    def swap_and_open(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "docs":
            (root / "docs").rename(root / "moved")
            (root / "docs").symlink_to(root.parent)
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_and_open)
    with pytest.raises(OSError, match="cannot be read"):
        read(tools, "docs/secret.txt")


@pytest.mark.parametrize("swapped", ["file", "pipe"])
def test_a_file_swapped_after_the_check_gains_nothing(
    root: Path, tools: list[BaseTool], monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    real_open = os.open

    def swap_and_open(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        if path == "poem.txt":
            (root / "poem.txt").unlink()
            if swapped == "file":
                (root / "poem.txt").symlink_to(root.parent / "secret.txt")
            else:
                os.mkfifo(root / "poem.txt")
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap_and_open)
    with pytest.raises(REFUSALS, match=r"cannot be read|not a regular file"):
        read(tools, "poem.txt")


def test_special_files_are_refused_without_being_opened(
    root: Path, tools: list[BaseTool], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    opened: list[object] = []
    real_open = os.open

    def note_and_open(path: str | Path, flags: int, *, dir_fd: int | None = None) -> int:
        opened.append(path)
        return real_open(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", note_and_open)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket"))
        for name in ("pipe", "socket", "pipe/x"):
            for tool in tools:
                with pytest.raises(REFUSALS, match="not a regular file"):
                    tool.invoke({"path": name})
    assert set(opened) == {root}
    assert "pipe (special)" in listing(tools)


def test_a_device_is_refused() -> None:
    with pytest.raises(ValueError, match="not a regular file"):
        read(file_tools("/dev"), "zero")


@pytest.mark.parametrize(
    "path",
    [
        "..\\secret.txt",
        "..\\..\\secret.txt",
        "C:\\secret.txt",
        "\\\\host\\share\\secret.txt",
        "․․/secret.txt",
        "．．/secret.txt",
        "..∕secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "\u202e..\u200b/secret.txt",
        "~/secret.txt",
        "$HOME/secret.txt",
        "file:///etc/passwd",
        "poem.txt\n../secret.txt",
    ],
)
def test_what_means_more_elsewhere_is_a_plain_name(tools: list[BaseTool], path: str) -> None:
    for tool in tools:
        with pytest.raises(FileNotFoundError) as raised:
            tool.invoke({"path": path})
        assert str(raised.value).isprintable()


def test_a_name_that_means_more_elsewhere_can_be_read(root: Path, tools: list[BaseTool]) -> None:
    (root / "..\\secret.txt").write_text("mine", encoding="utf-8")
    assert read(tools, "..\\secret.txt") == "mine"


def test_refusals_do_not_tell_where_the_folder_is(root: Path, tools: list[BaseTool]) -> None:
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("/")
    for path in ("loop", "loop/x", "out", "missing", "docs", "poem.txt/x", "..", "x" * 300, "a\0"):
        with pytest.raises(REFUSALS) as raised:
            read(tools, path)
        assert str(root.parent) not in str(raised.value)


def test_no_refusal_tells_what_is_outside(root: Path, tools: list[BaseTool]) -> None:
    (root / "out").symlink_to(root.parent)
    told = set()
    for name in ("secret.txt", "nothing.txt", "secret.txt/x", "shared-not"):
        for path in (f"out/{name}", f"{root.parent}/{name}"):
            with pytest.raises(PermissionError) as raised:
                read(tools, path)
            told.add(str(raised.value).replace(repr(path), "…"))
    assert told == {"… is refused: it leads out of the shared folder"}


def test_a_long_path_takes_no_time(tools: list[BaseTool]) -> None:
    started = time.thread_time()
    for path in ("a/" * 1_000_000, "a/" * 2000, "/a" * 1_000_000, "./" * 1_000_000):
        with pytest.raises(REFUSALS):
            read(tools, path)
    assert time.thread_time() - started < 2


def test_binary_and_foreign_encodings_are_refused(root: Path, tools: list[BaseTool]) -> None:
    (root / "image").write_bytes(b"PNG\0\0")
    (root / "latin").write_bytes("é".encode("latin-1"))
    for name in ("image", "latin"):
        with pytest.raises(ValueError, match="is binary"):
            read(tools, name)


def test_sizes_are_bounded(root: Path, tools: list[BaseTool]) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (root / "wide").write_text("x" * (MAX_LINE_CHARS + 1), encoding="utf-8")
    (root / "many").mkdir()
    for number in range(MAX_ENTRIES + 2):
        (root / "many" / str(number)).touch()
    with pytest.raises(ValueError, match=f"larger than {MAX_FILE_BYTES} bytes"):
        read(tools, "huge")
    assert read(tools, "wide") == "x" * MAX_LINE_CHARS + "… (1 more characters)"
    assert listing(tools, "many").endswith("… and 2 more")


def test_a_file_that_vanishes_while_it_is_listed_breaks_nothing(
    root: Path, tools: list[BaseTool], monkeypatch: pytest.MonkeyPatch
) -> None:
    real_listdir = os.listdir

    def list_and_remove(folder: int) -> list[str]:
        names = real_listdir(folder)
        (root / "poem.txt").unlink()
        return names

    monkeypatch.setattr(os, "listdir", list_and_remove)
    assert listing(tools) == "docs/\npoem.txt (gone)"


def test_descriptors_are_given_back(root: Path, tools: list[BaseTool]) -> None:
    (root / "loop").symlink_to("loop")
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - counted, not used
    for path in ("poem.txt", "docs/notes.md", "missing", "docs/missing/x", "docs", "loop", "poem.txt/x"):
        for tool in tools:
            try:
                tool.invoke({"path": path})
            except REFUSALS:
                continue
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("name", ["missing", "file"])
def test_the_root_must_be_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is not a folder"):
        file_tools(tmp_path / name)
