"""What each setting does, in a few words, and what holds where nobody sets it. Text alone."""

from __future__ import annotations

from collections.abc import Mapping

PARAMS: Mapping[str, Mapping[str, str]] = {
    "sampling": {
        "temperature": "higher is freer, 0 takes the likeliest token each time",
        "top_k": "of how many of the likeliest tokens one is drawn; 0 of all",
        "top_p": "of the likeliest tokens that share this much probability",
        "min_p": "no token below this share of the likeliest one's probability",
        "typical_p": "tokens whose surprise is typical, up to this much probability",
        "top_n_sigma": "no token this many deviations below the likeliest; below 0 is off",
        "xtc_probability": "how often all but the last of the likely tokens are left out",
        "xtc_threshold": "what counts as likely for xtc_probability",
        "dynatemp_range": "how far temperature goes up and down with certainty",
        "mirostat": "1 or 2 hold the surprise steady in place of top_k and top_p",
        "mirostat_tau": "the surprise that mirostat aims at",
        "mirostat_eta": "how fast mirostat learns",
        "seed": "the same seed draws the same reply; none draws anew",
    },
    "repetition": {
        "repeat_penalty": "above 1, tokens that stand close before are less likely",
        "repeat_last_n": "how far back repeat_penalty looks; -1 the whole context",
        "frequency_penalty": "less likely the more often a token was written",
        "presence_penalty": "less likely once a token was written at all",
        "dry_multiplier": "how much repeated sequences are held back; 0 is off",
        "dry_base": "how fast that grows with the length of the sequence",
        "dry_allowed_length": "sequences up to this length may repeat",
    },
    "length": {
        "max_new_tokens": "the longest reply, in tokens",
        "stop": "texts at which a reply ends",
    },
    "thinking": {
        "enable_thinking": "true or false; none leaves it to the model",
        "reasoning_effort": "none, minimal, low, medium, high, xhigh or max",
        "reasoning_budget": "the longest thought, in tokens",
    },
    "tokens": {
        "logprobs": "record each token with this many alternatives, for the token view",
    },
}
"""How the next reply is sampled, by group."""

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
    "generation.reasoning_format": (
        "on reads <think> also where the template shows no thoughts, none leaves them in the text",
        "auto",
    ),
    "generation.prompt_lookup_num_tokens": ("guess this many tokens from the prompt", "off"),
    "generation.num_assistant_tokens": ("tokens the small model drafts at a time", "auto"),
    "generation.ignore_eos": ("go on where the model would end", "false"),
    "generation.lora": ("adapters that count for replies", "none"),
    "max_rounds": ("how often one reply may call tools and go on", "50"),
    "workspace": ("the folder that tools work in", "the one Fireside began in"),
    "generation.reply_reserve": (
        "tokens of the context kept free for a reply; a chat that leaves fewer has outgrown it",
        "256, or an eighth of the context",
    ),
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
