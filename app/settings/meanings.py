"""What each setting does, in a few words, and what holds where nobody sets it. Text alone."""

from __future__ import annotations

from collections.abc import Mapping

PARAMS: Mapping[str, Mapping[str, str]] = {
    "sampling": {
        "temperature": "higher is freer; 0 always takes the likeliest token",
        "top_k": "choose among this many of the likeliest tokens; 0 means all",
        "top_p": "choose among the likeliest tokens that add up to this probability",
        "min_p": "drop tokens below this share of the likeliest one's probability",
        "typical_p": "keep tokens of typical surprise, up to this probability",
        "top_n_sigma": "drop tokens this many deviations below the likeliest; below 0 is off",
        "xtc_probability": "how often all likely tokens but the last are dropped",
        "xtc_threshold": "what counts as likely for xtc_probability",
        "dynatemp_range": "how far temperature moves with the model's certainty",
        "mirostat": "1 or 2 keep the surprise steady in place of top_k and top_p",
        "mirostat_tau": "the surprise that mirostat aims at",
        "mirostat_eta": "how fast mirostat learns",
        "seed": "the same seed gives the same reply; none picks a new one each time",
    },
    "repetition": {
        "repeat_penalty": "above 1, recently used tokens are less likely",
        "repeat_last_n": "how far back repeat_penalty looks; -1 the whole context",
        "frequency_penalty": "makes tokens less likely the more often they were written",
        "presence_penalty": "makes tokens less likely once they were written",
        "dry_multiplier": "how much repeated sequences are penalised; 0 is off",
        "dry_base": "how fast that grows with the length of the sequence",
        "dry_allowed_length": "sequences up to this length may repeat",
    },
    "length": {
        "max_new_tokens": "the longest reply, in tokens",
        "stop": "texts at which a reply ends",
    },
    "thinking": {
        "enable_thinking": "true or false; unset leaves it to the model",
        "reasoning_effort": "none, minimal, low, medium, high, xhigh or max",
        "reasoning_budget": "the longest thought, in tokens",
    },
    "tokens": {
        "logprobs": "record each token with this many alternatives, for the token view",
    },
}
"""How the next reply is sampled, by group."""

WORDS: Mapping[str, tuple[str, str]] = {
    "model": ("the model to load at start", "first model found"),
    "pull": ("fetch missing models without asking", "false"),
    "system": ("system prompt of new chats", "nothing"),
    "tools": ("tools offered in new chats", "none"),
    "hidden_tools": ("tools that are never offered", "none"),
    "approve": ("which tools run without asking", "ask"),
    "instructions": ("use AGENTS.md of trusted folders", "true"),
    "timeout": ("seconds after which fireside -p gives up", "never"),
    "show_thinking": ("show thinking in the other faces too", "false"),
    "theme": ("colour theme", "hearth"),
    "color": ("number of colours of the terminal", "auto"),
    "ascii": ("draw with ASCII only", "false"),
    "pictures": ("how pictures are drawn", "auto"),
    "type_ahead": ("prepare the chat while you type", "false"),
    "bell": ("when the terminal's bell rings", "unfocused"),
    "vi_keys": ("use vi keys", "false"),
    "load.n_gpu_layers": ("layers of the model on the GPU", "auto"),
    "load.max_seq": ("the context, in tokens", "what fits"),
    "load.kv_cache_mode": ("paged keeps each chat apart, continuous packs many short ones", "paged"),
    "load.kv_cache_type": ("precision of the context; q8_0 takes half the memory", "f16"),
    "load.flash_attn": ("attention that needs less memory", "auto"),
    "load.compute_dtype": ("what the model computes with", "auto"),
    "load.assistant_model": ("a small model that drafts for this one", "none"),
    "load.mmproj": ("projector file that lets the model see or hear", "auto"),
    "load.lora": ("LoRA adapters to apply", "none"),
    "load.chat_template": ("a chat template in place of the model's own", "the model's"),
    "load.threads": ("CPU threads", "auto"),
    "load.main_gpu": ("the main GPU", "0"),
    "load.tensor_split": ("how layers are split among GPUs", "auto"),
    "load.mmap": ("load the file as it is needed", "true"),
    "load.mlock": ("lock the model in memory", "false"),
    "load.slots": ("replies that can be written at once", "4"),
    "load.tool_call_format": ("how tool calls are written; generic works with any model", "the model's"),
    "generation.logit_bias": ("make single tokens more or less likely", "none"),
    "generation.grammar": ("a grammar that every reply follows", "none"),
    "generation.json_schema": ("a JSON schema that every reply follows", "none"),
    "generation.tool_choice": ("auto, none, required, or one tool", "auto"),
    "generation.parallel_tool_calls": ("allow several tool calls in one reply", "true"),
    "generation.reasoning_format": (
        "on reads <think> also where the template shows no thoughts, none leaves them in the text",
        "auto",
    ),
    "generation.prompt_lookup_num_tokens": ("guess this many tokens from the prompt", "off"),
    "generation.num_assistant_tokens": ("tokens the draft model drafts at a time", "auto"),
    "generation.ignore_eos": ("continue where the model would stop", "false"),
    "generation.lora": ("adapters used for replies", "none"),
    "max_rounds": ("how many rounds of tool calls one reply may take", "50"),
    "workspace": ("the folder that tools work in", "where Fireside was started"),
    "generation.reply_reserve": (
        "tokens of the context kept free for a reply",
        "256, or an eighth of the context",
    ),
    "generation.overflow": ("what to do when a chat no longer fits the context", "ask"),
}
"""By full name: what it does, and what holds without it."""


def words_of(key: str) -> tuple[str, str]:
    """What a setting does, and what holds without it; empty where that is not known."""
    if key in WORDS:
        return WORDS[key]
    name = key.removeprefix("generation.")
    does = next((params[name] for params in PARAMS.values() if name in params), "")
    return does, "the model's" if does else ""
