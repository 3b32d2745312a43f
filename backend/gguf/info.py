"""What a GGUF file says about the model in it: sizes, layers, memory, template, sampling defaults.

`read_gguf` reads and checks every part of a split model; `require_model` refuses files that are
something else (a projector, an adapter, a vocabulary). Values come from an untrusted file: texts
must be escaped before they are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from backend.gguf.file import DOWNLOAD_AGAIN, fail, quoted, shown
from backend.gguf.header import Array, Header, Tensor, Value, read_header
from backend.gguf.layers import Layer, number, numbers, read_layers
from backend.gguf.tables import ARCHITECTURES, DIFFUSION, ENCODERS, FILE_TYPES, TENSOR_TYPES
from backend.types import GenerationConfig

Kind = Literal["model", "embedding", "projector", "adapter", "imatrix", "vocabulary"]

MAX_LAYERS = 512
"""llama.cpp ends the process beyond it."""
_TOKENS = "tokenizer.ggml.tokens"
_TOKEN_TYPES = "tokenizer.ggml.token_type"
_MAX_TEMPLATE_BYTES = 1 << 20
_MAX_PARTS = 1000
_PART_NAME = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
_SAMPLING_FIELDS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}


@dataclass(frozen=True)
class GGUFInfo:
    """A checked GGUF file (all parts of it, if it is split), and what it says of its model."""

    path: Path
    version: int
    kind: Kind
    architecture: str
    name: str
    quantization: str
    n_params: int
    n_ctx_train: int
    """The context the model was trained with, in tokens; 0 where the file is no model."""
    n_layer: int
    n_embd: int
    n_vocab: int
    sliding_window: int
    """In tokens; 0 means none."""
    layers: tuple[Layer, ...]
    chat_template: str | None
    sampling: Mapping[str, Value]
    """`general.sampling.*` without that prefix, as stored."""
    weights_bytes: int
    """Tensor data of all parts."""
    size_bytes: int
    """All parts on disk."""
    parts: tuple[Path, ...]
    """Every file of the model; one where it is not split."""
    metadata: Mapping[str, Value] = field(repr=False)
    arrays: Mapping[str, Array] = field(repr=False)
    """Type and length of every array of the metadata, kept or not."""
    kinds: Mapping[str, str] = field(repr=False)
    tensors: Mapping[str, Tensor] = field(repr=False)
    tokens: tuple[bytes, ...] = field(repr=False)
    """The vocabulary, where it was asked for."""
    token_types: bytes = field(repr=False)
    """The type of each token as four bytes, little-endian, where they were asked for."""

    @property
    def is_known(self) -> bool:
        """Whether our list has the architecture; llama.cpp may still know it."""
        return self.architecture in ARCHITECTURES

    @property
    def is_embedding(self) -> bool:
        return self.kind == "embedding"

    @property
    def is_recurrent(self) -> bool:
        """Every layer keeps a state instead of keys and values."""
        return bool(self.layers) and all(layer.state_bytes and not layer.n_head_kv for layer in self.layers)

    @property
    def is_hybrid(self) -> bool:
        """Some layers keep a state, some keys and values."""
        return not self.is_recurrent and any(layer.state_bytes for layer in self.layers)

    @property
    def n_head(self) -> int:
        """The largest number of attention heads in a layer."""
        return max((layer.n_head for layer in self.layers), default=0)

    @property
    def n_ff(self) -> int:
        """The largest feed-forward length of a layer."""
        return max(numbers(self.metadata, f"{self.architecture}.feed_forward_length"), default=0)

    @property
    def defaults(self) -> GenerationConfig:
        """The checkpoint's own sampling defaults; values out of range are left out."""
        config = GenerationConfig()
        for stored, name in _SAMPLING_FIELDS.items():
            try:
                value = self.sampling.get(stored)
                if name == "top_k" and isinstance(value, int) and value < 0:
                    value = 0  # Below one, llama.cpp takes every token.
                config = GenerationConfig.of({name: value}).over(config)
            except (TypeError, ValueError, OverflowError):
                continue
        return config


def read_gguf(path: Path, *, tokens: bool = False) -> GGUFInfo:
    """Read the header at `path`, and of every further part if the model is split.

    `tokens` keeps the texts and types of the vocabulary too.

    Raises ModelLoadError with a cause and a remedy for every defect; never anything else. Takes
    some 10 ms for a vocabulary of 100,000 tokens and under a second for any hostile file.
    """
    header = read_header(path, arrays=(_TOKENS, _TOKEN_TYPES) if tokens else ())
    parts = _parts(header)
    return _Interpreter(header, parts).info()


def require_model(info: GGUFInfo) -> GGUFInfo:
    """`info` if it describes a model that can be loaded by itself, else ModelLoadError."""
    match info.kind:
        case "model" | "embedding":
            return info
        case "projector":
            problem = "is a vision or audio projector, a companion of a model"
            remedy = "Load the model it belongs to and give this file with --mmproj."
        case "adapter":
            problem = "is an adapter (LoRA), not a model"
            remedy = "Load the model it was made for and give this file with --lora."
        case "imatrix":
            problem = "is an importance matrix, a helper for making quantized files"
            remedy = "Choose the model file beside it."
        case "vocabulary":
            problem = _weightless(info)
            remedy = "Get the whole model."
    fail(info.path, problem, "not_a_chat_model", remedy)


def _weightless(info: GGUFInfo) -> str:
    """What a file without any weights is."""
    if _embeds(info.architecture, info.metadata):
        return "contains only the metadata of an embedding model, without any weights"
    what = "a vocabulary" if info.n_vocab or "tokenizer.ggml.model" in info.metadata else "metadata"
    return f"contains only {what}, without any weights"


def _embeds(architecture: str, metadata: Mapping[str, Value]) -> bool:
    """Whether a model of these metadata turns texts into numbers and writes none."""
    pools = number(metadata, f"{architecture}.pooling_type") > 0
    # A model that looks ahead embeds; the few that write text that way are told by name.
    looks_ahead = metadata.get(f"{architecture}.attention.causal") is False
    return (architecture in ENCODERS or pools or looks_ahead) and architecture not in DIFFUSION


# ---- split models --------------------------------------------------------------------------


def first_part(path: Path) -> Path:
    """The first part of the split model that `path` belongs to; `path` itself if it is not split."""
    match = _PART_NAME.match(path.name)
    return path if match is None else path.with_name(f"{match['stem']}-00001-of-{match['count']}.gguf")


def part_number(path: Path) -> tuple[int, int] | None:
    """`(part, of how many)` by the file's name, None if it does not say."""
    match = _PART_NAME.match(path.name)
    return None if match is None else (int(match["part"]), int(match["count"]))


def _parts(header: Header) -> tuple[Header, ...]:
    """The headers of all parts, `header` first."""
    path = header.path
    count = header.metadata.get("split.count", 0)
    if not isinstance(count, int) or not 0 <= count <= _MAX_PARTS:
        fail(path, f"says it is split into {shown(count)} parts", "bad_metadata", DOWNLOAD_AGAIN)
    if count < 2:
        return (header,)
    number = header.metadata.get("split.no", 0)
    match = _PART_NAME.match(path.name)
    if match is None or int(match["count"]) != count:
        problem = f"is one of {count} parts, but its name does not end in -0000N-of-{count:05d}.gguf"
        fail(path, problem, "missing_shard", "Give all parts the names they were published under.")
    if number != 0:
        first = first_part(path).name
        remedy = f"Name the first part: {shown(first)}."
        fail(path, f"is a later part of a model in {count} parts", "missing_shard", remedy)
    names = [f"{match['stem']}-{index:05d}-of-{count:05d}.gguf" for index in range(1, count + 1)]
    missing = [name for name in names[1:] if not path.with_name(name).exists()]
    if missing:
        listed = ", ".join(shown(name) for name in missing[:3]) + (", …" if len(missing) > 3 else "")
        absent = "1 part is" if len(missing) == 1 else f"{len(missing)} parts are"
        problem = f"is part 1 of {count}, and {absent} missing beside it: {listed}"
        fail(path, problem, "missing_shard", "Download the missing parts into the same folder.")
    return (header, *(read_header(path.with_name(name)) for name in names[1:]))


# ---- meaning -------------------------------------------------------------------------------


class _Interpreter:
    """Turns the headers of a model's parts into a GGUFInfo; the first one holds the metadata."""

    def __init__(self, header: Header, parts: tuple[Header, ...]) -> None:
        self._path = header.path
        self._header = header
        self._parts = parts
        self._metadata = header.metadata
        self._tensors = self._join_tensors()
        self._architecture = self._text("general.architecture")
        self._kind: Kind = self._find_kind()

    def info(self) -> GGUFInfo:
        is_model = self._kind in ("model", "embedding")
        n_layer = self._required("block_count", MAX_LAYERS) if is_model else 0
        n_embd = self._required("embedding_length", 1 << 24) if is_model else 0
        n_ctx_train = self._required("context_length", 1 << 31) if is_model else 0
        window = number(self._metadata, f"{self._architecture}.attention.sliding_window") if is_model else 0
        return GGUFInfo(
            path=self._path,
            version=self._header.version,
            kind=self._kind,
            architecture=self._architecture,
            name=self._text("general.name") or self._path.stem,
            quantization=self._quantization(),
            n_params=sum(tensor.n_elements for tensor in self._tensors.values()),
            n_ctx_train=n_ctx_train,
            n_layer=n_layer,
            n_embd=n_embd,
            n_vocab=self._n_vocab(),
            sliding_window=window,
            layers=read_layers(self._architecture, self._metadata, self._tensors.values(), n_layer, n_embd),
            chat_template=self._chat_template(),
            sampling={
                key.removeprefix("general.sampling."): value
                for key, value in self._metadata.items()
                if key.startswith("general.sampling.")
            },
            weights_bytes=sum(tensor.size_bytes for tensor in self._tensors.values()),
            size_bytes=sum(part.file_bytes for part in self._parts),
            parts=tuple(part.path for part in self._parts),
            metadata=self._metadata,
            arrays=self._header.arrays,
            kinds=self._header.kinds,
            tensors=self._tensors,
            tokens=self._header.texts.get(_TOKENS, ()),
            token_types=self._header.numbers.get(_TOKEN_TYPES, b""),
        )

    def _join_tensors(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for part in self._parts:
            for tensor in part.tensors:
                if tensor.name in tensors:
                    problem = f"contains the tensor {quoted(tensor.name)}, which another part contains too"
                    fail(part.path, problem, "bad_metadata", DOWNLOAD_AGAIN)
                tensors[tensor.name] = tensor
        return tensors

    def _find_kind(self) -> Kind:
        declared = self._text("general.type")
        if self._architecture == "clip" or declared == "mmproj":
            return "projector"
        if declared == "adapter" or "adapter.type" in self._metadata or self._architecture == "controlvector":
            return "adapter"
        if declared == "imatrix" or "imatrix.chunk_count" in self._metadata:
            return "imatrix"
        if not self._architecture:
            self._bad("does not name the architecture of its model")
        if not self._tensors:
            return "vocabulary"
        return "embedding" if _embeds(self._architecture, self._metadata) else "model"

    def _quantization(self) -> str:
        stored = self._metadata.get("general.file_type")
        # Bit 10 marks a type that the writer guessed.
        if isinstance(stored, int) and (name := FILE_TYPES.get(stored & ~1024)):
            return name
        sizes: Counter[int] = Counter()
        for tensor in self._tensors.values():
            sizes[tensor.type] += tensor.size_bytes
        return TENSOR_TYPES[sizes.most_common(1)[0][0]].name if sizes else "none"

    def _n_vocab(self) -> int:
        tokens = self._header.arrays.get(_TOKENS)
        return tokens.length if tokens else number(self._metadata, f"{self._architecture}.vocab_size")

    def _chat_template(self) -> str | None:
        key = "tokenizer.chat_template"
        if size := self._header.omitted.get(key):
            self._bad(f"has a chat template of {size:,} bytes; at most {_MAX_TEMPLATE_BYTES:,} are read")
        return self._text(key) or None

    def _required(self, name: str, most: int) -> int:
        key = f"{self._architecture}.{name}"
        if key not in self._metadata:
            self._bad(f"lacks {quoted(key)}, which every model has")
        value = self._metadata[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            self._bad(f"says {quoted(key)} is {shown(repr(value))}; it must be from 1 to {most:,}")
        return value

    def _text(self, key: str) -> str:
        value = self._metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def _bad(self, problem: str) -> NoReturn:
        fail(self._path, problem, "bad_metadata", DOWNLOAD_AGAIN)
