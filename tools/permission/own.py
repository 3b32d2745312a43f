"""The tools that ship, known by their functions: what another tool says of itself proves nothing."""

from __future__ import annotations

from tools.builtin.files import edit_file, list_files, read_file, write_file
from tools.builtin.notes import notes
from tools.builtin.search import find_files, search_text
from tools.builtin.shell import run_python, run_shell
from tools.builtin.web import fetch_page
from tools.definition import Tool

_ON_PATHS = (read_file, write_file, edit_file, list_files, find_files, search_text)
_FILES = tuple(made.function for made in _ON_PATHS)
_CONFINED = (run_shell.function, run_python.function)


def is_for_files(tool: Tool) -> bool:
    """Touches the paths of its arguments and nothing else, whatever its other arguments say."""
    return tool.function in _FILES


def is_confined(tool: Tool) -> bool:
    """Starts what it runs in the sandbox of its context, and runs nothing in this process."""
    return tool.function in _CONFINED


def is_said_to_read(tool: Tool) -> bool:
    """A server's tool that the person's own settings name as one that only reads."""
    return tool.source.startswith("MCP ") and tool.does <= frozenset(("read",))


def is_shell(tool: Tool) -> bool:
    """Gives its command to a shell in the workspace, as it stands."""
    return tool.function is run_shell.function


def reads_pages(tool: Tool) -> bool:
    """Asks public addresses for pages, and sends nothing but the address."""
    return tool.function is fetch_page.function


def keeps_notes(tool: Tool) -> bool:
    """Touches a folder of Fireside's own, by names that are no paths."""
    return tool.function is notes.function
