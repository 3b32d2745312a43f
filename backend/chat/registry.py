"""What no rendering can tell: families known by a marker in the template or the vocabulary, and
the names of syntaxes. An entry patches fields of the learned format; it never replaces it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from backend.chat.format import CallSyntax, ChatFormat, Thought


@dataclass(frozen=True)
class Entry:
    """A family's facts, applied where its evidence is found."""

    name: str
    evidence: tuple[str, ...]
    """Texts that must all stand in the template's source or be tokens of the vocabulary."""
    instead: tuple[str, ...] = ()
    """Texts of which one in the template's name is evidence enough: where its source has none."""
    only_without_calls: bool = False
    calls: CallSyntax | None = None
    thought: Thought | None = None
    header: str | None = None
    skipped: tuple[str, ...] = ()
    reopens: bool = False
    channels: bool = False

    def fits(self, source: str, name: str, vocabulary: Collection[str], learned: ChatFormat) -> bool:
        if self.only_without_calls and learned.calls is not None:
            return False
        shown = all(mark in source or mark in vocabulary for mark in self.evidence)
        return shown or any(word.lower() in name.lower() for word in self.instead)


_NAME_AND_ARGUMENTS = CallSyntax(
    kind="json", name_path=("name",), arguments_path=("arguments",), members=("name", "arguments")
)
_PYTHONIC = CallSyntax(
    kind="tagged", section_start="[", section_end="]", separator=", ", head_end="(", call_end=")",
    value_start="=", argument_separator=", ", quote=("'", "'"), nested="python",
)  # fmt: skip
HERMES = replace(_NAME_AND_ARGUMENTS, call_start="<tool_call>\n", call_end="\n</tool_call>", separator="\n")
GENERIC = replace(
    _NAME_AND_ARGUMENTS, name_path=("tool_call", "name"), arguments_path=("tool_call", "arguments"),
    members=("tool_call",), separator="\n",
)  # fmt: skip

ASSUMED_THOUGHT = Thought("<think>", "</think>", "registry", raw_end="\n</think>\n\n")
"""What most models write around a thought, for one whose template shows nothing of it."""

ENTRIES = (
    Entry(
        "harmony", ("<|channel|>", "<|message|>", "<|start|>"), channels=True, header="<|start|>assistant",
        thought=Thought("<|channel|>analysis<|message|>", "<|end|>", "registry"),
        calls=CallSyntax(
            kind="tagjson", call_start="<|channel|>commentary to=functions.",
            middle=" <|constrain|>json<|message|>", call_end="<|call|>", separator="<|start|>assistant",
        ),
    ),
    Entry("kimi_k2", ("<|tool_call_argument_begin|>",), thought=Thought("<think>", "</think>", "registry")),
    Entry(
        "lfm2", ("<|tool_list_start|>",), instead=("LFM2",), only_without_calls=True,
        calls=replace(_PYTHONIC, section_start="<|tool_call_start|>[", section_end="]<|tool_call_end|>"),
    ),
    Entry(
        "lfm2", ("<|tool_call_start|>",), only_without_calls=True,
        calls=replace(_PYTHONIC, section_start="<|tool_call_start|>[", section_end="]<|tool_call_end|>"),
    ),
    Entry(
        "lfm2", ("List of tools: [", "keep_past_thinking"), only_without_calls=True,
        calls=replace(_PYTHONIC, section_start="<|tool_call_start|>[", section_end="]<|tool_call_end|>"),
    ),
    Entry("mimo", ("You are MiMo, an AI assistant",), thought=Thought("<think>", "</think>", "registry")),
    Entry("llama3", ("<|python_tag|>",), skipped=("<|python_tag|>",)),
    Entry("gemma4", ("<|channel>", "<channel|>"), skipped=("<channel|>", "<|channel>"), reopens=True),
    Entry(
        "granite3", ("<|tool_call|>",), only_without_calls=True,
        calls=replace(_NAME_AND_ARGUMENTS, section_start="<|tool_call|>[", section_end="]", separator=", "),
    ),
    Entry("hermes", ("<tool_call>",), only_without_calls=True, calls=HERMES),
    Entry("hermes", ("named SmolLM,", "Reasoning Mode: "), only_without_calls=True, calls=HERMES),
    Entry(
        "apertus", ("<|inner_prefix|>", "<|inner_suffix|>"),
        thought=Thought("<|inner_prefix|>", "<|inner_suffix|>", "text"),
    ),
    Entry("pythonic", ("[func_name1(params_name1=params_value1",), only_without_calls=True, calls=_PYTHONIC),
)  # fmt: skip
"""In order; every entry whose evidence fits is applied, the first with calls among them."""

NAMES = (
    ("mistral", "[TOOL_CALLS]"),
    ("minimax_m3", "]<]minimax[>["),
    ("minimax_m2", "<minimax:tool_call>"),
    ("apriel", "<tool_calls>["),
    ("minimax_m1", "<tool_calls>"),
    ("seed_oss", "<seed:tool_call>"),
    ("deepseek_dsml", "\uff5cDSML\uff5c"),
    ("deepseek_v3", "<\uff5ctool\u2581call\u2581begin\uff5c>function"),
    ("deepseek_v31", "<\uff5ctool\u2581call\u2581begin\uff5c>"),
    ("kimi_k2", "<|tool_call_begin|>"),
    ("kimi_k3", "<|open|>call tool="),
    ("cohere_action", "<|START_ACTION|>"),
    ("cohere_markdown", "Action:"),
    ("hunyuan", "<tool_call:"),
    ("granite", "<|tool_call|>"),
    ("nemotron", "<TOOLCALL>"),
    ("gemma4", "<|tool_call>call:"),
    ("apertus", "<|tools_prefix|>"),
    ("gigachat", "function call<|role_sep|>"),
    ("gigachat", "<|function_call|>"),
    ("firefunction", "functools["),
    ("functionary_v32", ">>>"),
    ("minicpm5", '<function name="'),
    ("muse", "<atem:function_calls>"),
    ("solar", "<|tool_call:begin|>"),
)
"""Names of syntaxes by a text of their section's or call's start."""


def complete(learned: ChatFormat, source: str, name: str, vocabulary: Collection[str] = ()) -> ChatFormat:
    """The learned format with what the registry knows of its family, and its name."""
    found = learned
    for entry in ENTRIES:
        if not entry.fits(source, name, vocabulary, found):
            continue
        found = replace(
            found,
            calls=entry.calls or found.calls,
            thought=entry.thought if entry.channels else found.thought or entry.thought,
            header=found.header if entry.header is None else entry.header,
            skipped=found.skipped + entry.skipped,
            reopens=found.reopens or entry.reopens,
            channels=found.channels or entry.channels,
            notes=(*found.notes, f"registry: {entry.name}"),
        )
    return replace(found, name=name_of(found))


def name_of(chat_format: ChatFormat) -> str:
    """The `tool_call_format` of the model API for a format."""
    calls = chat_format.calls
    if chat_format.channels:
        return "harmony"
    if calls is None:
        return "generic"
    opening = calls.section_start + calls.call_start + calls.head + calls.middle + calls.head_end
    for name, mark in NAMES:
        if mark in opening:
            return name
    match calls.kind:
        case "json" if "<tool_call>" in opening:
            return "hermes"
        case "json" if not calls.triggers and calls.name_path == ("name",):
            return "llama3_json"
        case "tagged" if "<function=" in opening:
            return "qwen_xml"
        case "tagged" if calls.argument_start.startswith("<arg_key"):
            return "glm"
        case "tagged" if calls.quote[0] in ("'", '"') and calls.head_end.strip() == "(":
            return "pythonic"
        case "tagjson" if "<function=" in opening:
            return "functionary_v31"
        case _:
            return "learned"
