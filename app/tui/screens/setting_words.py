"""What each setting does, in a few words, and what holds where nobody sets it."""

from __future__ import annotations

from collections.abc import Mapping

from app.tui.screens.params import PARAMS

WORDS: Mapping[str, tuple[str, str]] = {
    "model": ("the model that is loaded first", "one that is here"),
    "pull": ("fetch a model that is not here without asking", "false"),
    "system": ("what each new chat's model is told first", "nothing"),
    "tools": ("the tools that new chats offer", "none"),
    "hidden_tools": ("tools that are never offered", "none"),
    "approve": ("which tools run without asking", "ask"),
    "instructions": ("let a trusted folder's AGENTS.md count", "true"),
    "timeout": ("seconds after which fireside -p gives up", "never"),
    "show_thinking": ("show thoughts outside this face too", "false"),
    "theme": ("the colours", "hearth"),
    "color": ("how many colours the terminal has", "auto"),
    "ascii": ("draw with ASCII only", "false"),
    "pictures": ("how pictures are drawn", "auto"),
    "type_ahead": ("read the chat ahead while you write", "false"),
    "bell": ("when the terminal's bell rings", "unfocused"),
    "vi_keys": ("write with vi's keys", "false"),
    "load.n_gpu_layers": ("layers of the model on the GPU", "auto"),
    "load.max_seq": ("the context, in tokens", "what fits"),
    "load.kv_cache_mode": ("paged keeps each chat apart, continuous packs many short ones", "paged"),
    "load.kv_cache_type": ("how exact the context is kept; q8_0 takes half the memory", "f16"),
    "load.flash_attn": ("attention that needs less memory", "auto"),
    "load.compute_dtype": ("what the model computes with", "auto"),
    "load.assistant_model": ("a small model that drafts for this one", "none"),
    "load.mmproj": ("the file that lets the model see or hear", "auto"),
    "load.lora": ("adapters put on the model", "none"),
    "load.chat_template": ("another template than the model's own", "the model's"),
    "load.threads": ("threads that compute", "auto"),
    "load.main_gpu": ("the GPU that is used first", "0"),
    "load.tensor_split": ("how layers are shared among GPUs", "auto"),
    "load.mmap": ("read the file as it is needed", "true"),
    "load.mlock": ("keep the model in memory for certain", "false"),
    "load.slots": ("chats that can be answered at once", "4"),
    "load.tool_call_format": ("how calls are written; generic teaches any model", "the model's"),
    "generation.logit_bias": ("make single tokens more or less likely", "none"),
    "generation.grammar": ("a grammar that every reply follows", "none"),
    "generation.json_schema": ("a JSON schema that every reply follows", "none"),
    "generation.tool_choice": ("auto, none, required, or one tool", "auto"),
    "generation.parallel_tool_calls": ("let one reply hold several calls", "true"),
    "generation.reasoning_format": ("how thoughts are told from the answer", "auto"),
    "generation.prompt_lookup_num_tokens": ("guess this many tokens from the prompt", "off"),
    "generation.num_assistant_tokens": ("tokens the small model drafts at a time", "auto"),
    "generation.ignore_eos": ("go on where the model would end", "false"),
    "generation.lora": ("adapters that count for replies", "none"),
    "generation.overflow": ("what is done when a chat outgrows the context", "ask"),
}
"""By full name: what it does, and what holds without it."""


def words_of(key: str) -> tuple[str, str]:
    """What a setting does, and what holds without it; empty where that is not known."""
    if key in WORDS:
        return WORDS[key]
    name = key.removeprefix("generation.")
    does = next((params[name] for params in PARAMS.values() if name in params), "")
    return does, "the model's" if does else ""
