"""llama.cpp's low-level ctypes API in small classes. One file, because no other may touch llama_cpp.

It owns native memory (models, contexts, samplers, batches) and the native log, and decides
nothing: no scheduling, no text, no policy. Nothing native reaches file descriptors 1 or 2.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.util
import os
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

INSTALL_LINE = "python -m pip install 'llama-cpp-python>=0.3.36,<0.4'"
OLDEST, BEYOND = (0, 3, 36), (0, 4)
SPINS = 2000
"""How often a waiting thread looks before it sleeps: some 30 to 90 microseconds."""

_FUNCTIONS = """
    llama_backend_init llama_log_set llama_model_default_params llama_context_default_params
    llama_sampler_chain_default_params llama_model_load_from_file llama_model_free llama_init_from_model
    llama_free llama_get_memory llama_model_get_vocab llama_model_n_ctx_train llama_model_n_swa
    llama_model_n_embd llama_model_n_params llama_model_size llama_model_desc llama_model_is_recurrent
    llama_model_is_hybrid llama_model_has_encoder llama_model_has_decoder llama_model_meta_val_str
    llama_model_chat_template llama_vocab_n_tokens llama_vocab_type llama_vocab_bos llama_vocab_eos
    llama_vocab_get_add_bos llama_vocab_get_text llama_vocab_get_attr llama_vocab_is_eog
    llama_vocab_is_control llama_tokenize llama_token_to_piece llama_decode llama_encode
    llama_get_logits_ith llama_get_embeddings_ith llama_get_embeddings_seq llama_pooling_type
    llama_set_abort_callback llama_synchronize llama_n_ctx llama_n_ctx_seq llama_memory_clear
    llama_memory_seq_rm llama_memory_seq_cp llama_memory_seq_pos_min llama_memory_seq_pos_max
    llama_sampler_chain_init llama_sampler_chain_add llama_sampler_free llama_sampler_sample
    llama_sampler_accept llama_sampler_apply llama_sampler_init_greedy llama_sampler_init_dist
    llama_sampler_init_top_k llama_sampler_init_top_p llama_sampler_init_min_p
    llama_sampler_init_typical llama_sampler_init_temp llama_sampler_init_temp_ext
    llama_sampler_init_xtc llama_sampler_init_top_n_sigma llama_sampler_init_mirostat
    llama_sampler_init_mirostat_v2 llama_sampler_init_penalties llama_sampler_init_dry
    llama_sampler_init_logit_bias llama_sampler_init_grammar
    llama_sampler_clone
    llama_state_seq_get_size_ext llama_state_seq_get_data_ext llama_state_seq_set_data_ext
    llama_supports_gpu_offload llama_print_system_info llama_set_n_threads
    llama_adapter_lora_init llama_adapter_lora_free llama_set_adapters_lora
""".split()
_CONTEXT_FIELDS = """
    n_ctx n_batch n_ubatch n_seq_max n_outputs_max n_threads n_threads_batch flash_attn_type type_k
    type_v abort_callback abort_callback_data embeddings no_perf swa_full kv_unified
""".split()

KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2}
"""`kv_cache_type` names and their ggml type numbers."""


def _import_bindings() -> Any:
    """llama_cpp's ctypes module without its package's `__init__` (47 ms instead of 165, no numpy)."""
    if loaded := sys.modules.get("llama_cpp.llama_cpp"):
        return loaded
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"llama-cpp-python is not installed. Install it with: {INSTALL_LINE}")
    folder = Path(next(iter(spec.submodule_search_locations)))
    _check_version(folder)
    stub = types.ModuleType("llama_cpp")
    stub.__path__ = [str(folder)]
    already = sys.modules.get("llama_cpp")
    if already is None:
        sys.modules["llama_cpp"] = stub
    try:
        with _short_spins():
            return importlib.import_module("llama_cpp.llama_cpp")
    except (OSError, RuntimeError) as err:
        raise ImportError(
            f"llama-cpp-python is installed, but its library does not load ({err}). "
            f"Build it again: {INSTALL_LINE} --force-reinstall --no-cache-dir"
        ) from err
    finally:
        if already is None:  # A later `import llama_cpp` of somebody else must run the real package.
            del sys.modules["llama_cpp"]


@contextlib.contextmanager
def _short_spins() -> Generator[None]:
    """Let threads that wait for each other sleep soon, where GNU OpenMP has not been told otherwise.

    It reads its variables when it is loaded. By default they spin for milliseconds, hundreds of
    times a token: on a busy machine, where one of them has lost its core, a reply then takes ten
    times as long and the whole processor. Spins this short cost a quiet machine nothing.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = str(SPINS)
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _check_version(folder: Path) -> None:
    text = (folder / "__init__.py").read_text(encoding="utf-8", errors="replace")
    found = re.search(r'__version__ = "(\d+)\.(\d+)\.(\d+)', text)
    version = tuple(map(int, found.groups())) if found else (0,)
    if not OLDEST <= version < BEYOND:
        raise ImportError(
            f"llama-cpp-python {'.'.join(map(str, version))} is not one Fireside was tested with. "
            f"Install a tested one with: {INSTALL_LINE}"
        )


def build_mark() -> str:
    """What tells this build of llama.cpp from another one: size and time of its library."""
    about = os.stat(C._lib._name)  # pyright: ignore[reportPrivateUsage]
    return f"{about.st_size}-{about.st_mtime_ns}"


def _check_symbols(bindings: Any) -> None:
    missing = [name for name in _FUNCTIONS if not hasattr(bindings, name)]
    fields = {name for name, *_ in bindings.llama_context_params._fields_}
    missing += [name for name in _CONTEXT_FIELDS if name not in fields]
    if missing:
        raise ImportError(
            f"This llama-cpp-python lacks {', '.join(missing)}. Install a tested one with: {INSTALL_LINE}"
        )


# ---- the native log ------------------------------------------------------------------------


class NativeLog:
    """llama.cpp's messages: the last ones in memory, all of them in a file once one is named."""

    def __init__(self) -> None:
        self.recent: deque[str] = deque(maxlen=400)
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    @property
    def has_file(self) -> bool:
        return self._file is not None

    def to_file(self, path: Path | None, *, limit_bytes: int = 4 << 20) -> None:
        """Append to `path` (mode 0600); a file past `limit_bytes` starts over. None closes it."""
        with self._lock:
            if self._file:
                self._file.close()
                self._file = None
            if path is None:
                return
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.exists() and path.stat().st_size > limit_bytes
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if fresh else os.O_APPEND)
            self._file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)

    def to_descriptor(self, descriptor: int) -> None:
        """Write to an open descriptor instead; for a process whose output leads to a log anyway."""
        self.to_file(None)
        self._file = os.fdopen(os.dup(descriptor), "wb", buffering=0)

    def write(self, text: bytes) -> None:
        with self._lock:
            self.recent.append(text.decode("utf-8", "replace"))
            if self._file:
                with contextlib.suppress(OSError):  # A full disk must not end a reply.
                    self._file.write(text)

    def tail(self, lines: int = 12) -> str:
        """The last messages, for an error's details."""
        return "".join(list(self.recent)[-lines * 2 :]).strip()


log = NativeLog()
atexit.register(log.to_file, None)

C: Any = _import_bindings()
_check_symbols(C)


@C.llama_log_callback
def _on_log(_level: int, text: bytes | None, _data: int | None) -> None:
    log.write(text or b"")


C.llama_log_set(_on_log, ctypes.c_void_p(0))
C.llama_backend_init()


# Three short calls keep the interpreter lock: given back, each must win it again from a busy
# thread, and a step of eight took up to 56 ms instead of 5. The long ones (decode, synchronize,
# load) release it.
_held = ctypes.PyDLL(C._lib._name)


def _holding_lock(name: str) -> Any:
    free, held = getattr(C._lib, name), getattr(_held, name)
    held.argtypes, held.restype = free.argtypes, free.restype
    return held


sample = _holding_lock("llama_sampler_sample")
_is_eog = _holding_lock("llama_vocab_is_eog")
_to_piece = _holding_lock("llama_token_to_piece")
_synchronize = C.llama_synchronize
_decode = C.llama_decode


# ---- devices -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Device:
    """A compute device as ggml reports it. Sizes are bytes."""

    name: str
    description: str
    kind: str
    free_bytes: int
    total_bytes: int


def devices() -> list[Device]:
    """Every device of this build of llama.cpp, the CPU included."""
    lib = C._lib
    for name, result in (
        ("ggml_backend_dev_count", ctypes.c_size_t),
        ("ggml_backend_dev_get", ctypes.c_void_p),
        ("ggml_backend_dev_name", ctypes.c_char_p),
        ("ggml_backend_dev_description", ctypes.c_char_p),
        ("ggml_backend_dev_type", ctypes.c_int),
    ):
        getattr(lib, name).restype = result
    kinds = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator"}
    found: list[Device] = []
    for index in range(lib.ggml_backend_dev_count()):
        device = ctypes.c_void_p(lib.ggml_backend_dev_get(ctypes.c_size_t(index)))
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        lib.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        kind = kinds.get(lib.ggml_backend_dev_type(device), "other")
        name, text = lib.ggml_backend_dev_name(device), lib.ggml_backend_dev_description(device)
        found.append(Device(_text(name), _text(text), kind, free.value, total.value))
    return found


def supports_gpu_offload() -> bool:
    """Whether this build can put layers on a GPU."""
    return bool(C.llama_supports_gpu_offload())


def system_info() -> str:
    """llama.cpp's line about CPU features and backends of this build."""
    return _text(C.llama_print_system_info())


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


# ---- model ---------------------------------------------------------------------------------


class Model:
    """A loaded GGUF with its vocabulary. `close()` frees it; contexts must go first."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.vocab = C.llama_model_get_vocab(handle)
        self.n_vocab: int = C.llama_vocab_n_tokens(self.vocab)
        self.n_ctx_train: int = C.llama_model_n_ctx_train(handle)
        self.n_swa: int = C.llama_model_n_swa(handle)
        """Width of the sliding window in tokens; 0 where there is none."""
        self.can_cut: bool = not (C.llama_model_is_recurrent(handle) or C.llama_model_is_hybrid(handle))
        """False where the memory holds a running state that no tail can be dropped from."""
        self.n_params: int = C.llama_model_n_params(handle)
        self.size_bytes: int = C.llama_model_size(handle)
        self._reading = threading.Lock()
        self._pieces: dict[int, bytes] = {}
        # Asked for every token: a call costs some 10 µs once a decode has emptied the caches.
        self._eog: dict[int, bool] = {}
        self._control: dict[int, bool] = {}
        self._buffer = ctypes.create_string_buffer(512)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        n_gpu_layers: int = 0,
        main_gpu: int = 0,
        tensor_split: Sequence[float] | None = None,
        mmap: bool = True,
        mlock: bool = False,
        vocab_only: bool = False,
        progress: Callable[[float], bool] | None = None,
    ) -> Model | None:
        """Load a file; None when llama.cpp refused it (its reasons are in `log.recent`) or was cancelled.

        `progress(fraction)` runs on this thread and cancels by returning False.
        """
        params = C.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.main_gpu = main_gpu
        params.load_mode = _load_mode(mmap, mlock)
        params.vocab_only = vocab_only
        failure: list[BaseException] = []

        @C.llama_progress_callback
        def on_progress(fraction: float, _data: int | None) -> bool:
            try:
                return progress is None or progress(fraction) is not False
            except BaseException as err:  # An exception must not unwind through C frames.
                failure.append(err)
                return False

        params.progress_callback = on_progress
        if tensor_split:
            shares = (ctypes.c_float * 128)(*tensor_split)
            params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        handle = C.llama_model_load_from_file(os.fsencode(path), params)
        if failure:
            if handle:
                C.llama_model_free(handle)
            raise failure[0]
        return cls(handle) if handle else None

    def load_adapter(self, path: str | os.PathLike[str]) -> Any:
        """Load a LoRA adapter for this model, or None when llama.cpp refused it. Freed with the model."""
        return C.llama_adapter_lora_init(self.handle, os.fsencode(path)) or None

    def close(self) -> None:
        """Free the weights. Harmless when called again."""
        with self._reading:  # A long text may be on its way through the vocabulary.
            if self.handle:
                C.llama_model_free(self.handle)
                self.handle = None

    def metadata(self, key: str) -> str | None:
        """A metadata value of the file as llama.cpp prints it, or None."""
        size = C.llama_model_meta_val_str(self.handle, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        C.llama_model_meta_val_str(self.handle, key.encode(), buffer, size + 1)
        return buffer.raw[:size].decode("utf-8", "replace")

    def chat_template(self) -> str | None:
        """The file's own chat template, or None."""
        raw = C.llama_model_chat_template(self.handle, None)
        return _text(raw) if raw else None

    @property
    def description(self) -> str:
        """Such as "llama 135M Q4_1"."""
        buffer = ctypes.create_string_buffer(256)
        C.llama_model_desc(self.handle, buffer, 256)
        return _text(buffer.value)

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt of this vocabulary starts with the BOS token."""
        return bool(C.llama_vocab_get_add_bos(self.vocab))

    @property
    def vocab_type(self) -> int:
        """llama.cpp's number of the vocabulary's kind: 1 SentencePiece, 2 BPE, 3 WordPiece, ..."""
        return C.llama_vocab_type(self.vocab)

    @property
    def bos(self) -> int:
        return C.llama_vocab_bos(self.vocab)

    @property
    def eos(self) -> int:
        return C.llama_vocab_eos(self.vocab)

    def token_text(self, token: int) -> str:
        """The vocabulary's own spelling of a token ("" for -1, the missing one)."""
        return _text(C.llama_vocab_get_text(self.vocab, token)) if token >= 0 else ""

    def is_eog(self, token: int) -> bool:
        """Whether this token ends a generation."""
        found = self._eog.get(token)
        if found is None:
            found = self._eog[token] = _is_eog(self.vocab, token)
        return found

    @cached_property
    def special_tokens(self) -> tuple[int, ...]:
        """Every control or user-defined token, in id order. Walks the vocabulary once (0.35 µs a token)."""
        attribute, vocab = C.llama_vocab_get_attr, self.vocab
        wanted = 0x18  # LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED
        return tuple(token for token in range(self.n_vocab) if attribute(vocab, token) & wanted)

    @cached_property
    def byte_tokens(self) -> dict[int, int]:
        """Tokens of one byte, by that byte. Vocabularies of bytes have them among their first tokens."""
        found: dict[int, int] = {}
        for token in range(min(self.n_vocab, 4096)):
            if len(piece := self.piece(token)) == 1:
                found.setdefault(piece[0], token)
        return found

    def is_control(self, token: int) -> bool:
        found = self._control.get(token)
        if found is None:
            found = self._control[token] = bool(C.llama_vocab_is_control(self.vocab, token))
        return found

    def tokenize(self, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """Token ids of `text`; control tokens are recognised in it only with `parse_special`.

        ValueError once the model is closed, also by another thread meanwhile.
        """
        with self._reading:
            if self.handle is None:
                raise ValueError("the model is closed")
            return self._tokenize(text, add_special, parse_special)

    def _tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        raw = text.encode("utf-8", "replace")
        capacity = len(raw) + 8
        tokens = (ctypes.c_int32 * capacity)()
        count = C.llama_tokenize(self.vocab, raw, len(raw), tokens, capacity, add_special, parse_special)
        if count < 0:
            capacity = -count
            tokens = (ctypes.c_int32 * capacity)()
            count = C.llama_tokenize(self.vocab, raw, len(raw), tokens, capacity, add_special, parse_special)
        return tokens[: max(count, 0)]

    def piece(self, token: int) -> bytes:
        """The bytes of a token, control tokens spelled out. Cached: 1.2 µs once, then 0.1."""
        found = self._pieces.get(token)
        if found is None:
            size = _to_piece(self.vocab, token, self._buffer, 512, 0, True)
            if size < 0:
                longer = ctypes.create_string_buffer(-size)
                size = _to_piece(self.vocab, token, longer, -size, 0, True)
                found = longer.raw[: max(size, 0)]
            else:
                found = self._buffer.raw[:size]
            self._pieces[token] = found
        return found


def _load_mode(mmap: bool, mlock: bool) -> int:
    return int(mmap) | int(mlock) << 1  # LLAMA_LOAD_MODE_: NONE 0, MMAP 1, MLOCK 2, MMAP_MLOCK 3


# ---- context -------------------------------------------------------------------------------


class Batch:
    """A `llama_batch` over arrays of our own, so that a run of tokens is five slice assignments."""

    def __init__(self, capacity: int) -> None:
        pointer = ctypes.POINTER(ctypes.c_int32)
        ints = ctypes.c_int32 * capacity
        self.capacity = capacity
        self.token, self.pos, self.seq_id = ints(), ints(), ints()
        self.n_seq_id = ints(*[1] * capacity)
        self.output = (ctypes.c_int8 * capacity)()
        first = ctypes.addressof(self.seq_id)
        self.seq_rows = (pointer * capacity)(
            *(ctypes.cast(first + 4 * row, pointer) for row in range(capacity))
        )
        self.raw = C.llama_batch(
            0,
            ctypes.cast(self.token, pointer),
            None,
            ctypes.cast(self.pos, pointer),
            ctypes.cast(self.n_seq_id, pointer),
            ctypes.cast(self.seq_rows, ctypes.POINTER(pointer)),
            ctypes.cast(self.output, ctypes.POINTER(ctypes.c_int8)),
        )
        self.rows = 0

    def clear(self) -> None:
        self.rows = self.raw.n_tokens = 0

    def add(self, seq_id: int, start: int, tokens: Sequence[int], *, outputs: int) -> int:
        """Append a run from position `start`, logits for its last `outputs` rows. The last row's index."""
        count, begin = len(tokens), self.rows
        end = begin + count
        if count == 1:  # A writer's row, every step: a third of the time of five slices.
            self.token[begin], self.pos[begin], self.seq_id[begin] = tokens[0], start, seq_id
            self.output[begin] = outputs
            self.rows = self.raw.n_tokens = end
            return begin
        self.token[begin:end] = tokens
        self.pos[begin:end] = range(start, start + count)
        self.seq_id[begin:end] = [seq_id] * count
        self.output[begin:end] = [0] * (count - outputs) + [1] * outputs
        self.rows = self.raw.n_tokens = end
        return end - 1


class AbortFlag:
    """Raises a flag that a running `llama_decode` sees between graph nodes.

    The callback is libc's `strlen` on our two bytes (0 for "", 1 when the first is set): C calls C,
    so that about 900 checks per step cost nothing, and any thread may set it.
    """

    _strlen = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(2)
        self.callback = C.ggml_abort_callback(self._strlen)
        self.data = ctypes.cast(self._bytes, ctypes.c_void_p)

    def raise_(self) -> None:
        self._bytes[0] = b"\x01"

    def clear(self) -> None:
        self._bytes[0] = b"\x00"


@dataclass(frozen=True)
class ContextParams:
    """What a context is built with. `n_ctx` counts the cells of all slots together."""

    n_ctx: int
    n_seq_max: int = 1
    n_batch: int = 512
    n_ubatch: int = 512
    n_threads: int = 2
    flash_attn: bool | None = False
    """None leaves the choice to llama.cpp."""
    kv_type: str = "f16"
    kv_unified: bool = False
    swa_full: bool = False
    n_outputs_max: int = 0
    """0: one row per sequence."""
    embeddings: bool = False


class Context:
    """A llama.cpp context: the memory of all slots and the compute graph. One thread uses it."""

    def __init__(self, model: Model, params: ContextParams) -> None:
        raw = C.llama_context_default_params()
        raw.n_ctx, raw.n_seq_max = params.n_ctx, params.n_seq_max
        raw.n_batch, raw.n_ubatch = params.n_batch, params.n_ubatch
        raw.n_threads = raw.n_threads_batch = params.n_threads
        raw.flash_attn_type = -1 if params.flash_attn is None else int(params.flash_attn)
        raw.type_k = raw.type_v = KV_TYPES[params.kv_type]
        raw.kv_unified, raw.swa_full = params.kv_unified, params.swa_full
        raw.embeddings = params.embeddings
        raw.no_perf = True
        # One row of logits per sequence is all that is asked for; the default reserves n_batch rows.
        raw.n_outputs_max = (
            params.n_batch if params.embeddings else (params.n_outputs_max or params.n_seq_max)
        )
        self.abort = AbortFlag()
        raw.abort_callback, raw.abort_callback_data = self.abort.callback, self.abort.data
        self.model = model
        self.handle = C.llama_init_from_model(model.handle, raw)
        if not self.handle:
            raise MemoryError("llama.cpp could not build the context")
        self.memory = C.llama_get_memory(self.handle)
        self.cells_per_slot: int = C.llama_n_ctx_seq(self.handle)

    def apply_adapters(self, adapters: Sequence[tuple[Any, float]]) -> bool:
        """Add these adapters, each times its scale, to every later step. False when refused."""
        count = len(adapters)
        handles = (C.llama_adapter_lora_p_ctypes * count)(*(handle for handle, _ in adapters))
        scales = (ctypes.c_float * count)(*(scale for _, scale in adapters))
        return C.llama_set_adapters_lora(self.handle, handles, count, scales) == 0

    def close(self) -> None:
        """Free the context. Harmless when called again."""
        if self.handle:
            C.llama_free(self.handle)
            self.handle = None

    def decode(self, batch: Batch) -> int:
        """Evaluate a batch and wait for it. 0 done, 1 no room, 2 aborted, negative a failure."""
        code: int = _decode(self.handle, batch.raw)
        if code == 0:
            _synchronize(self.handle)  # So that sampling never waits for a GPU with the lock held.
        return code

    def encode(self, batch: Batch) -> int:
        """Evaluate a batch of an encoder-only model."""
        code: int = C.llama_encode(self.handle, batch.raw)
        if code == 0:
            _synchronize(self.handle)
        return code

    def logits(self, row: int) -> Any:
        """A ctypes array of n_vocab floats: the logits of a batch row. Valid until the next decode."""
        pointer = C.llama_get_logits_ith(self.handle, row)
        return ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float * self.model.n_vocab)).contents

    def embedding(self, *, row: int | None = None, seq_id: int = 0) -> list[float]:
        """The pooled embedding of a sequence, or that of one row where the model pools nothing."""
        size = C.llama_model_n_embd(self.model.handle)
        if row is None:
            pointer = C.llama_get_embeddings_seq(self.handle, seq_id)
        else:
            pointer = C.llama_get_embeddings_ith(self.handle, row)
        return list(pointer[:size]) if pointer else []

    @property
    def pools(self) -> bool:
        """Whether the model itself joins the rows of a sequence into one embedding."""
        return C.llama_pooling_type(self.handle) > 0

    # Memory: positions of one slot ("sequence id" in llama.cpp).

    def drop(self, slot: int, start: int) -> None:
        """Remove the positions from `start` on. Ask `highest` and `lowest` what really happened."""
        C.llama_memory_seq_rm(self.memory, slot, start, -1)

    def wipe(self, slot: int) -> None:
        """Remove everything a slot holds."""
        C.llama_memory_seq_rm(self.memory, slot, -1, -1)

    def copy(self, source: int, target: int) -> None:
        """Copy a whole slot into an empty one. A partial copy would assert inside llama.cpp."""
        C.llama_memory_seq_cp(self.memory, source, target, -1, -1)

    def cells_of(self, slot: int) -> bytearray:
        """llama.cpp's own bytes of what a slot holds, for `put_cells`."""
        size: int = C.llama_state_seq_get_size_ext(self.handle, slot, 0)
        data = bytearray(size)
        written: int = C.llama_state_seq_get_data_ext(self.handle, _bytes_of(data), size, slot, 0)
        return data[:written] if written < size else data

    def put_cells(self, slot: int, cells: bytearray) -> bool:
        """Put what `cells_of` gave into an empty slot; False where it does not fit this context."""
        taken: int = C.llama_state_seq_set_data_ext(self.handle, _bytes_of(cells), len(cells), slot, 0)
        return taken == len(cells) > 0

    def highest(self, slot: int) -> int:
        """The highest position held, -1 when empty."""
        return C.llama_memory_seq_pos_max(self.memory, slot)

    def lowest(self, slot: int) -> int:
        """The lowest position held, -1 when empty."""
        return C.llama_memory_seq_pos_min(self.memory, slot)


def _bytes_of(data: bytearray) -> Any:
    return (ctypes.c_uint8 * len(data)).from_buffer(data)
