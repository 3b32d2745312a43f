"""The settings, one row each. One file, because it is the one table that everybody reads.

The file, the variables, the flags, shells, screens and pages do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from app.settings.kinds import Kind


class Setting(NamedTuple):
    """One setting. `does` says in a few words what it does, `usual` what is used where nobody sets it."""

    kind: Kind
    does: str
    usual: str = "the model's"
    group: str = ""
    """Where it stands among the parameters of the next reply; empty for what is no such parameter."""
    project: bool = False
    """Whether a trusted project may bring it; the others are the person's own business."""
    flag: tuple[str, ...] = ()
    """The spellings of its flag, the first one in errors."""
    help: str = ""
    """What `--help` says of the flag."""
    metavar: str | None = None

    @property
    def flag_name(self) -> str:
        """The flag as errors name it, empty where there is none."""
        return self.flag[0].partition("/")[0] if self.flag else ""


SETTINGS: Mapping[str, Setting] = {
    "model": Setting(
        "name",
        "the model to load at start",
        "first model found",
        project=True,
        flag=(
            "--model",
            "-m",
        ),
        help="Model: a file, a folder, a name, or user/repo[:quantization].",
    ),
    "server": Setting(
        "name",
        "use the models of a server: its address, or a name of [servers]; none for this machine's",
        "none",
        flag=("--server",),
        help="Use the models of this server: its address, or its name in your settings.",
        metavar="URL|NAME",
    ),
    "pull": Setting(
        "bool",
        "fetch missing models without asking",
        "false",
        flag=("--pull",),
        help="Fetch the model if it is missing, without asking.",
    ),
    "system": Setting(
        "text",
        "system prompt of new chats",
        "nothing",
        project=True,
        flag=(
            "--system",
            "-s",
        ),
        help="System prompt.",
    ),
    "tools": Setting(
        "texts",
        "tools offered in new chats",
        "none",
        project=True,
        flag=("--tools",),
        help="Tools the model may call: names, patterns, files (commas; repeatable).",
        metavar="NAMES|FILE",
    ),
    "hidden_tools": Setting("texts", "tools that are never offered", "none", project=True),
    "approve": Setting(
        "approval",
        "which tools run without asking",
        "ask",
        flag=("--approve",),
        help="What runs without asking: ask (nothing), read (workspace reads), all (sandboxed); none, plan.",
        metavar="ask|read|all|none|plan",
    ),
    "instructions": Setting(
        "bool",
        "use AGENTS.md of trusted folders",
        "true",
        flag=("--instructions/--no-instructions",),
        help="Give the model AGENTS.md of a trusted folder, or not.",
    ),
    "timeout": Setting(
        "seconds",
        "seconds after which fireside -p gives up",
        "never",
        flag=("--timeout",),
        help="Give up after this many seconds.",
        metavar="SECONDS",
    ),
    "show_thinking": Setting(
        "bool",
        "show thinking in the other faces too",
        "false",
        flag=("--show-thinking",),
        help="Show the thinking, on standard error.",
    ),
    "theme": Setting("name", "colour theme", "hearth", project=True),
    "color": Setting(
        "color",
        "number of colours of the terminal",
        "auto",
        flag=("--color",),
        help="Colours: auto, always, never, 16, 256 or truecolor.",
        metavar="DEPTH",
    ),
    "ascii": Setting(
        "bool", "draw with ASCII only", "false", flag=("--ascii",), help="Draw with ASCII only."
    ),
    "pictures": Setting("pictures", "how pictures are drawn", "auto"),
    "bell": Setting("bell", "when the terminal's bell rings", "unfocused"),
    "vi_keys": Setting("bool", "use vi keys", "false"),
    "type_ahead": Setting("bool", "prepare the chat while you type", "false"),
    "chat_cache_gib": Setting(
        "index", "disk space in GiB that lets long chats continue at once; 0 turns it off", "4"
    ),
    "load.n_gpu_layers": Setting(
        "layers",
        "layers of the model on the GPU",
        "auto",
        flag=("--gpu-layers",),
        help="Layers on the GPU: a number, all or auto.",
    ),
    "load.max_seq": Setting(
        "count", "the context, in tokens", "what fits", flag=("--ctx",), help="Context window in tokens."
    ),
    "load.kv_cache_mode": Setting(
        "cache_mode", "paged keeps each chat apart, continuous packs many short ones", "paged"
    ),
    "load.kv_cache_type": Setting(
        "cache_type",
        "precision of the context; q8_0 takes half the memory",
        "f16",
        flag=("--kv-type",),
        help="Type of the KV cache, such as q8_0.",
    ),
    "load.flash_attn": Setting(
        "switch",
        "attention that needs less memory",
        "auto",
        flag=("--flash-attn",),
        help="Flash attention: on, off or auto.",
    ),
    "load.compute_dtype": Setting("dtype", "what the model computes with", "auto"),
    "load.assistant_model": Setting(
        "name",
        "a small model that drafts for this one",
        "none",
        flag=("--draft-model",),
        help="A small model that drafts for this one.",
        metavar="NAME",
    ),
    "load.mmproj": Setting(
        "name",
        "projector file that lets the model see or hear",
        "auto",
        flag=("--mmproj",),
        help="The projector of a model that sees or hears.",
        metavar="FILE",
    ),
    "load.lora": Setting(
        "adapters",
        "LoRA adapters to apply",
        "none",
        flag=("--lora",),
        help="LoRA adapter (repeatable).",
        metavar="FILE[:SCALE]",
    ),
    "load.chat_template": Setting(
        "template",
        "a chat template in place of the model's own",
        "the model's",
        flag=("--chat-template",),
        help="Chat template: a file, or the template itself.",
        metavar="FILE|TEXT",
    ),
    "load.threads": Setting("count", "CPU threads", "auto", flag=("--threads",), help="CPU threads."),
    "load.main_gpu": Setting("index", "the main GPU", "0"),
    "load.tensor_split": Setting("floats", "how layers are split among GPUs", "auto"),
    "load.mmap": Setting("bool", "load the file as it is needed", "true"),
    "load.mlock": Setting("bool", "lock the model in memory", "false"),
    "load.slots": Setting(
        "count",
        "replies that can be written at once",
        "4",
        flag=("--slots",),
        help="Replies that can decode at the same time.",
    ),
    "load.tool_call_format": Setting(
        "call_format",
        "how tool calls are written; generic works with any model",
        "the model's",
        flag=("--tool-format",),
        help="How the model writes tool calls; generic works with any model.",
        metavar="NAME",
    ),
    "generation.max_new_tokens": Setting(
        "int",
        "the longest reply, in tokens",
        group="length",
        project=True,
        flag=("--max-tokens",),
        help="The most tokens a reply may have.",
    ),
    "generation.temperature": Setting(
        "float",
        "higher is freer; 0 always takes the likeliest token",
        group="sampling",
        project=True,
        flag=("--temperature",),
        help="Randomness; 0 always takes the likeliest token.",
    ),
    "generation.top_k": Setting(
        "int",
        "choose among this many of the likeliest tokens; 0 means all",
        group="sampling",
        project=True,
        flag=("--top-k",),
        help="Keep the k most probable tokens; 0 keeps all.",
    ),
    "generation.top_p": Setting(
        "float",
        "choose among the likeliest tokens that add up to this probability",
        group="sampling",
        project=True,
        flag=("--top-p",),
        help="Nucleus sampling; 1 is off.",
    ),
    "generation.min_p": Setting(
        "float",
        "drop tokens below this share of the likeliest one's probability",
        group="sampling",
        project=True,
        flag=("--min-p",),
        help="Drop tokens below this share of the best; 0 is off.",
    ),
    "generation.typical_p": Setting(
        "float",
        "keep tokens of typical surprise, up to this probability",
        group="sampling",
        project=True,
        flag=("--typical-p",),
        help="Locally typical sampling; 1 is off.",
    ),
    "generation.top_n_sigma": Setting(
        "float",
        "drop tokens this many deviations below the likeliest; below 0 is off",
        group="sampling",
        project=True,
    ),
    "generation.xtc_probability": Setting(
        "float",
        "how often all likely tokens but the last are dropped",
        group="sampling",
        project=True,
    ),
    "generation.xtc_threshold": Setting(
        "float", "what counts as likely for xtc_probability", group="sampling", project=True
    ),
    "generation.dynatemp_range": Setting(
        "float",
        "how far temperature moves with the model's certainty",
        group="sampling",
        project=True,
    ),
    "generation.mirostat": Setting(
        "int",
        "1 or 2 keep the surprise steady in place of top_k and top_p",
        group="sampling",
        project=True,
    ),
    "generation.mirostat_tau": Setting(
        "float", "the surprise that mirostat aims at", group="sampling", project=True
    ),
    "generation.mirostat_eta": Setting("float", "how fast mirostat learns", group="sampling", project=True),
    "generation.repeat_penalty": Setting(
        "float",
        "above 1, recently used tokens are less likely",
        group="repetition",
        project=True,
        flag=("--repeat-penalty",),
        help="Penalty for repeated tokens; 1 is off.",
    ),
    "generation.repeat_last_n": Setting(
        "int",
        "how far back repeat_penalty looks; -1 the whole context",
        group="repetition",
        project=True,
    ),
    "generation.frequency_penalty": Setting(
        "float",
        "makes tokens less likely the more often they were written",
        group="repetition",
        project=True,
        flag=("--frequency-penalty",),
        help="Penalty that grows with each repetition; 0 is off.",
    ),
    "generation.presence_penalty": Setting(
        "float",
        "makes tokens less likely once they were written",
        group="repetition",
        project=True,
        flag=("--presence-penalty",),
        help="Penalty for tokens seen at all; 0 is off.",
    ),
    "generation.dry_multiplier": Setting(
        "float",
        "how much repeated sequences are penalised; 0 is off",
        group="repetition",
        project=True,
    ),
    "generation.dry_base": Setting(
        "float",
        "how fast that grows with the length of the sequence",
        group="repetition",
        project=True,
    ),
    "generation.dry_allowed_length": Setting(
        "int", "sequences up to this length may repeat", group="repetition", project=True
    ),
    "generation.logit_bias": Setting("json", "make single tokens more or less likely", "none"),
    "generation.seed": Setting(
        "seed",
        "the same seed gives the same reply; none picks a new one each time",
        group="sampling",
        project=True,
        flag=("--seed",),
        help="Seed of the sampler; unset, each run differs.",
    ),
    "generation.stop": Setting(
        "texts",
        "texts at which a reply ends",
        group="length",
        project=True,
        flag=("--stop",),
        help="End the reply before this text (repeatable).",
        metavar="TEXT",
    ),
    "generation.grammar": Setting(
        "text",
        "a grammar that every reply follows",
        "none",
        flag=("--grammar",),
        help="GBNF grammar the reply must match: a file or GBNF.",
        metavar="FILE|GBNF",
    ),
    "generation.json_schema": Setting(
        "schema",
        "a JSON schema that every reply follows",
        "none",
        flag=("--schema",),
        help="JSON schema the reply must satisfy: a file or JSON.",
        metavar="FILE|JSON",
    ),
    "generation.tool_choice": Setting("tool", "auto, none, required, or one tool", "auto"),
    "generation.parallel_tool_calls": Setting("bool", "allow several tool calls in one reply", "true"),
    "generation.enable_thinking": Setting(
        "bool",
        "true or false; unset leaves it to the model",
        group="thinking",
        project=True,
        flag=("--think/--no-think",),
        help="Let the model think first, or not.",
    ),
    "generation.reasoning_effort": Setting(
        "effort",
        "none, minimal, low, medium, high, xhigh or max",
        group="thinking",
        project=True,
        flag=("--effort",),
        help="How hard to think: none, minimal, low, medium, high, xhigh, max.",
    ),
    "generation.reasoning_budget": Setting(
        "int", "the longest thought, in tokens", group="thinking", project=True
    ),
    "generation.reasoning_format": Setting(
        "reasoning",
        "on reads <think> also where the template shows no thoughts, none leaves them in the text",
        "auto",
    ),
    "generation.prompt_lookup_num_tokens": Setting("int", "guess this many tokens from the prompt", "off"),
    "generation.num_assistant_tokens": Setting("int", "tokens the draft model drafts at a time", "auto"),
    "generation.logprobs": Setting(
        "int", "record each token with this many alternatives, for the token view", group="tokens"
    ),
    "generation.ignore_eos": Setting("bool", "continue where the model would stop", "false"),
    "generation.lora": Setting("adapters", "adapters used for replies", "none"),
    "generation.overflow": Setting("overflow", "what to do when a chat no longer fits the context", "ask"),
    "generation.reply_reserve": Setting(
        "count", "tokens of the context kept free for a reply", "256, or an eighth of the context"
    ),
}
"""Every setting by its full name: as in the file, a dot for each table."""
KINDS: dict[str, Kind] = {key: one.kind for key, one in SETTINGS.items()}
GROUPS = ("sampling", "repetition", "length", "thinking", "tokens")
PARAMS: Mapping[str, Mapping[str, str]] = {
    group: {key.rpartition(".")[2]: one.does for key, one in SETTINGS.items() if one.group == group}
    for group in GROUPS
}
"""How the next reply is sampled, by group: what each parameter does."""
OF_A_CHAT: Mapping[str, tuple[str, str]] = {
    "max_rounds": ("how many rounds of tool calls one reply may take", "50"),
    "workspace": ("the folder that tools work in", "where Fireside was started"),
}
"""What only a single chat has: what it does, and what is used without it."""


def words_of(key: str) -> tuple[str, str]:
    """What a setting does, and what is used without it; empty where that is not known."""
    if key in OF_A_CHAT:
        return OF_A_CHAT[key]
    sampled = SETTINGS.get(f"generation.{key}")
    found = SETTINGS.get(key) or (sampled if sampled and sampled.group else None)
    return (found.does, found.usual) if found else ("", "")
