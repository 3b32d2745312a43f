"""What ships with Fireside, as data, so that listing it imports none of it."""

from __future__ import annotations

from tools.definition import Effect
from tools.manifest import Manifest


def _of(module: str, name: str, summary: str, *does: Effect) -> Manifest:
    return Manifest(name, summary, does, "built-in", f"tools.builtin.{module}", name)


BUILT_IN: tuple[Manifest, ...] = (
    _of("files", "read_file", "Read a text file.", "read"),
    _of("files", "write_file", "Write a whole file.", "write"),
    _of("files", "edit_file", "Replace a piece of a text file.", "write"),
    _of("files", "list_files", "List a folder.", "read"),
    _of("search", "find_files", "Find files by name.", "read"),
    _of("search", "search_text", "Search the lines of text files.", "read"),
    _of("shell", "run_shell", "Run a shell command in the workspace.", "execute"),
    _of("shell", "run_python", "Run Python code as a program of its own.", "execute"),
    _of("web", "fetch_page", "Read a web page as text.", "network"),
    _of("calculate", "calculate", "Work out an arithmetic expression exactly.", "nothing"),
    _of("clock", "now", "The date, the weekday and the time now.", "nothing"),
    _of("notes", "notes", "Keep notes that later chats can read.", "read", "write"),
    _of("delegate", "delegate", "Give a task to a helper with an empty conversation.", "nothing"),
)
