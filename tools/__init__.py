"""The plugin directory: what a model may call. `from tools import tool` makes a tool of a function.

Names are resolved on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.context import Field as Field
    from tools.context import Form as Form
    from tools.context import ToolContext as ToolContext
    from tools.definition import Tool as Tool
    from tools.definition import ToolError as ToolError
    from tools.definition import Touch as Touch
    from tools.definition import tool as tool
    from tools.registry import ToolRegistry as ToolRegistry

__all__ = ["Field", "Form", "Tool", "ToolContext", "ToolError", "ToolRegistry", "Touch", "tool"]

_HOMES = {
    "Field": "tools.context",
    "Form": "tools.context",
    "Tool": "tools.definition",
    "ToolContext": "tools.context",
    "ToolError": "tools.definition",
    "ToolRegistry": "tools.registry",
    "Touch": "tools.definition",
    "tool": "tools.definition",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tools' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
