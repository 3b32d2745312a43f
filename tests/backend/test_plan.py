from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend import native
from backend.gguf.info import GGUFInfo, read_gguf
from backend.plan import SHARE, Demand, DeviceMemory, Plan, compute_bytes, make_plan
from backend.types import ModelLoadError
from tests import tiny_gguf

MIB, GB = 1 << 20, 10**9


def host(free_bytes: float) -> DeviceMemory:
    return DeviceMemory("CPU", "cpu", int(free_bytes))


def gpu(free_bytes: float, name: str = "CUDA0") -> DeviceMemory:
    return DeviceMemory(name, "gpu", int(free_bytes))


@pytest.fixture(scope="session")
def llama(tiny_models: Path) -> GGUFInfo:
    """A model trained for 65,536 tokens: 512 bytes of cache for each."""
    shape = tiny_gguf.Shape(n_ctx=65_536)
    return read_gguf(tiny_gguf.make_model(tiny_models / "plan-llama.gguf", shape=shape))


@pytest.fixture(scope="session")
def gemma3(tiny_models: Path) -> GGUFInfo:
    shape = tiny_gguf.Shape(n_layer=6, sliding_window=512, n_ctx=32_768)
    return read_gguf(tiny_gguf.make_model(tiny_models / "plan-gemma3.gguf", "gemma3", shape=shape))


# ---- against llama.cpp ---------------------------------------------------------------------


def measured(path: Path, plan: Plan) -> tuple[float, float]:
    """MiB of cache (states included) and of scratch, as llama.cpp reports them for `plan`."""
    model = native.Model.load(path)
    assert model is not None, native.log.tail()
    native.log.recent.clear()
    params = native.ContextParams(
        n_ctx=plan.n_ctx,
        n_seq_max=plan.slots,
        n_batch=plan.n_batch,
        n_ubatch=plan.n_ubatch,
        n_threads=1,
        flash_attn=plan.flash_attn,
        kv_type=plan.kv_type,
        kv_unified=plan.kv_unified,
        swa_full=plan.swa_full,
        n_outputs_max=plan.n_outputs,
    )
    context = native.Context(model, params)
    report = "".join(native.log.recent)
    context.close()
    model.close()
    cache = re.findall(r"(?:KV|RS) buffer size = +([0-9.]+) MiB", report)
    scratch = re.findall(r"compute buffer size = +([0-9.]+) MiB", report)
    return sum(map(float, cache)), sum(map(float, scratch))


DEMANDS = [
    Demand(),
    Demand(slots=4),
    Demand(slots=3, max_seq=3000),
    Demand(flash_attn=True),
    Demand(slots=4, unified=True),
    Demand(slots=2, flash_attn=True, max_seq=16_384),
    Demand(slots=8, max_seq=1024, n_draft=3),
]


@pytest.mark.parametrize("demand", DEMANDS, ids=range(len(DEMANDS)))
@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
def test_the_arithmetic_agrees_with_llama_cpp(
    name: str, demand: Demand, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    plan = make_plan(read_gguf(path), demand, host(24 * GB))
    cache, scratch = measured(path, plan)
    # The report has two decimals per buffer, and there are up to two of them.
    assert plan.kv_cache_bytes / MIB == pytest.approx(cache, abs=0.015)
    assert scratch - 0.1 <= plan.compute_bytes / MIB <= 1.35 * scratch + 0.5


def test_a_window_of_its_own_cache_agrees_with_llama_cpp(gemma3: GGUFInfo) -> None:
    tight = make_plan(gemma3, Demand(max_seq=32_768), host(40 * MIB))
    roomy = make_plan(gemma3, Demand(max_seq=32_768), host(24 * GB))
    assert (tight.swa_full, roomy.swa_full) == (False, True)
    for plan in (tight, roomy):
        cache, _ = measured(gemma3.path, plan)
        assert plan.kv_cache_bytes / MIB == pytest.approx(cache, abs=0.015)


@pytest.mark.parametrize(
    ("cells", "n_ubatch", "flash_attn", "scratch_mib"),
    [
        # Reported by llama-cpp-python 0.3.36.
        (32_768, 512, False, 646.4),
        (32_768, 512, True, 45.5),
        (32_768, 128, False, 161.6),
        (8_192, 128, False, 41.6),
        (2_048, 512, True, 15.5),
    ],
)
def test_the_starter_needs_the_scratch_that_was_measured(
    starter_model: Path, cells: int, n_ubatch: int, flash_attn: bool, scratch_mib: float
) -> None:
    plan = Plan(
        n_ctx=cells,
        max_seq=cells,
        slots=1,
        n_batch=512,
        n_ubatch=n_ubatch,
        flash_attn=flash_attn,
        swa_full=False,
        kv_type="f16",
        kv_unified=False,
        n_gpu_layers=0,
        n_outputs=1,
    )
    assert compute_bytes(read_gguf(starter_model), plan) / MIB == pytest.approx(scratch_mib, rel=0.03)


def test_the_starter_gets_its_trained_context(starter_model: Path) -> None:
    plan = make_plan(read_gguf(starter_model), Demand(slots=8), host(8 * GB))
    assert (plan.max_seq, plan.slots, plan.n_ctx) == (8192, 8, 65_536)
    assert (plan.flash_attn, plan.n_ubatch, plan.n_batch) == (False, 128, 512)
    assert plan.kv_cache_bytes == 8 * 8192 * 30 * 3 * (64 + 64) * 2
    assert plan.notes == ()


# ---- what gives way ------------------------------------------------------------------------


def test_cells_shrink_before_slots_and_slots_before_the_floor(llama: GGUFInfo) -> None:
    all_of_it = make_plan(llama, Demand(slots=4), host(24 * GB))
    assert (all_of_it.max_seq, all_of_it.slots) == (65_536, 4)
    less = make_plan(llama, Demand(slots=4), host(150 * MIB))
    assert 8192 < less.max_seq < 65_536
    assert less.slots == 4
    fewer = make_plan(llama, Demand(slots=4), host(36 * MIB))
    assert fewer.max_seq >= 8192
    assert 1 <= fewer.slots < 4
    assert fewer.notes
    least = make_plan(llama, Demand(slots=4), host(4 * MIB))
    assert least.max_seq < 8192
    assert least.slots == 1


def test_an_asked_for_context_costs_slots(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(slots=4, max_seq=65_536), host(300 * MIB))
    assert plan.max_seq == 65_536
    assert 1 <= plan.slots < 4


def test_a_context_beyond_the_trained_one_is_noted(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(max_seq=100_000), host(24 * GB))
    assert plan.max_seq == 100_000
    assert plan.n_ctx % 256 == 0
    assert any("longer than" in note for note in plan.notes)


def test_what_cannot_fit_is_refused_with_numbers_and_a_remedy(llama: GGUFInfo) -> None:
    with pytest.raises(ModelLoadError, match=r"does not fit.*\(65,536 tokens\).*free \(CPU\)") as caught:
        make_plan(llama, Demand(max_seq=65_536), host(10 * MIB))
    assert caught.value.cause == "out_of_memory"
    assert "smaller context" in caught.value.remedy
    with pytest.raises(ModelLoadError) as caught:
        make_plan(llama, Demand(), host(MIB))
    assert "smaller model" in caught.value.remedy


@pytest.mark.parametrize("megabytes", [3, 6, 10, 100, 1000])
@pytest.mark.parametrize("flash", ["auto", False])
def test_the_remedy_names_a_context_that_fits_and_the_next_larger_does_not(
    llama: GGUFInfo, megabytes: int, flash: Any
) -> None:
    memory = host(megabytes * MIB)
    with pytest.raises(ModelLoadError) as caught:
        make_plan(llama, Demand(max_seq=99_999_999, flash_attn=flash), memory)
    found = re.search(r"--ctx (\d+)", caught.value.remedy)
    assert found
    cells = int(found[1])
    assert cells <= llama.n_ctx_train
    assert not make_plan(llama, Demand(max_seq=cells, flash_attn=flash), memory).is_tight
    if cells < llama.n_ctx_train:
        try:
            larger = make_plan(llama, Demand(max_seq=cells + 256, flash_attn=flash), memory)
        except ModelLoadError:
            return
        assert larger.is_tight


def test_flash_attention_is_the_way_out_where_scratch_breaks_the_plan(llama: GGUFInfo) -> None:
    room = 100 * MIB
    assert make_plan(llama, Demand(max_seq=65_536, flash_attn=True), host(room)).slots == 1
    auto = make_plan(llama, Demand(max_seq=65_536), host(room))
    assert auto.flash_attn
    assert any("Flash attention" in note for note in auto.notes)
    assert not make_plan(llama, Demand(max_seq=65_536), host(GB)).flash_attn


def test_a_quantized_cache_turns_flash_attention_on(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(kv_type="q8_0"), host(GB))
    assert plan.flash_attn
    assert plan.kv_cache_bytes == 65_536 * 2 * 2 * 32 * 34 // 32
    with pytest.raises(ValueError, match="flash attention"):
        Demand(kv_type="q8_0", flash_attn=False)


def test_the_full_window_cache_never_costs_context_or_slots(gemma3: GGUFInfo) -> None:
    for room in range(12, 400, 12):
        demand = Demand(slots=4)
        plan = make_plan(gemma3, demand, host(room * MIB))
        pinned = Demand(slots=plan.slots, max_seq=plan.max_seq)
        assert make_plan(gemma3, pinned, host(room * MIB)).swa_full == plan.swa_full
        if plan.slots == 4 and plan.max_seq == 32_768 and room > 330:
            assert plan.swa_full


def test_an_encoder_reads_a_text_in_one_pass_and_keeps_no_cache(tiny_embedding: Path) -> None:
    plan = make_plan(read_gguf(tiny_embedding), Demand(), host(GB))
    assert plan.n_ubatch == plan.n_batch == plan.max_seq == 512
    assert plan.kv_cache_bytes == 0


def test_a_unified_cache_is_shared_by_all_slots(llama: GGUFInfo) -> None:
    shared = make_plan(llama, Demand(slots=64, unified=True), host(GB))
    alone = make_plan(llama, Demand(), host(GB))
    assert (shared.slots, shared.n_ctx) == (64, 65_536)
    assert shared.kv_cache_bytes == alone.kv_cache_bytes


# ---- devices -------------------------------------------------------------------------------


def test_all_layers_go_to_a_gpu_with_room(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(slots=2), host(GB), [gpu(GB)])
    cpu, card = plan.devices
    assert plan.n_gpu_layers == llama.n_layer + 1
    assert plan.flash_attn
    assert (cpu.layers, card.layers) == (0, 2)
    assert cpu.kv_cache_bytes == 0
    assert card.kv_cache_bytes == plan.kv_cache_bytes
    assert cpu.weights_bytes + card.weights_bytes == llama.weights_bytes


def test_a_small_gpu_takes_some_layers_and_says_so(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(), host(GB), [gpu(12.5 * MIB)])
    assert plan.n_gpu_layers == 1
    assert "1 of 2 layers run on the GPU, the rest on the CPU." in plan.notes


def test_a_full_gpu_leaves_the_model_on_the_cpu(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(), host(GB), [gpu(0)])
    assert (plan.n_gpu_layers, plan.flash_attn, plan.n_ubatch) == (0, False, 128)


def test_an_integer_of_layers_is_obeyed(llama: GGUFInfo) -> None:
    assert make_plan(llama, Demand(n_gpu_layers=1), host(GB), [gpu(GB)]).n_gpu_layers == 1
    assert make_plan(llama, Demand(n_gpu_layers=-1), host(GB), [gpu(GB)]).n_gpu_layers == 3
    assert make_plan(llama, Demand(n_gpu_layers=7), host(GB)).n_gpu_layers == 0


def test_two_gpus_share_by_their_free_memory(gemma3: GGUFInfo) -> None:
    plan = make_plan(gemma3, Demand(), host(GB), [gpu(GB), gpu(2 * GB, "CUDA1")])
    assert [device.layers for device in plan.devices] == [0, 2, 4]


def test_a_companion_counts_on_the_device_of_the_layers(llama: GGUFInfo) -> None:
    on_card = make_plan(llama, Demand(companion_bytes=MIB), host(GB), [gpu(GB)]).devices
    without = make_plan(llama, Demand(), host(GB), [gpu(GB)]).devices
    assert on_card[1].weights_bytes - without[1].weights_bytes == MIB
    on_host = make_plan(llama, Demand(companion_bytes=MIB), host(GB)).devices
    assert on_host[0].weights_bytes == llama.weights_bytes + MIB


def test_an_unknown_amount_of_free_memory_sets_no_limit(llama: GGUFInfo) -> None:
    plan = make_plan(llama, Demand(slots=8), host(0))
    assert (plan.max_seq, plan.slots) == (65_536, 8)


@pytest.mark.parametrize(
    "wrong",
    [{"slots": 0}, {"max_seq": 0}, {"kv_type": "q3"}, {"n_gpu_layers": -2}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_senseless_demands_are_value_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Demand(**wrong)  # pyright: ignore[reportArgumentType]


@given(
    free=st.integers(1, 400),
    slots=st.integers(1, 8),
    max_seq=st.none() | st.integers(1, 100_000),
    kv_type=st.none() | st.sampled_from(["f16", "q8_0", "q4_0", "f32"]),
    unified=st.booleans(),
)
def test_every_plan_keeps_its_promises(
    llama: GGUFInfo,
    gemma3: GGUFInfo,
    free: int,
    slots: int,
    max_seq: int | None,
    kv_type: str | None,
    unified: bool,
) -> None:
    demand = Demand(slots=slots, max_seq=max_seq, kv_type=kv_type, unified=unified)
    for info in (llama, gemma3):
        try:
            plan = make_plan(info, demand, host(free * MIB))
        except ModelLoadError as err:
            assert err.cause == "out_of_memory"
            continue
        used = sum(device.total_bytes for device in plan.devices)
        assert used <= free * MIB
        assert plan.is_tight == (used > SHARE * free * MIB)
        assert 1 <= plan.slots <= slots
        assert plan.max_seq == max_seq or max_seq is None
        assert plan.max_seq <= plan.n_ctx // (1 if unified else plan.slots)
        if plan.is_tight:
            assert plan.slots == 1


def test_a_known_need_makes_a_smaller_context_and_never_a_larger_one(tiny_llama: Path) -> None:
    info = read_gguf(tiny_llama)
    whole = make_plan(info, Demand(), host(1 << 34))
    assert make_plan(info, Demand(most_cells=300), host(1 << 34)).max_seq == 512
    assert make_plan(info, Demand(most_cells=10**9), host(1 << 34)).max_seq == whole.max_seq
    assert make_plan(info, Demand(max_seq=700, most_cells=300), host(1 << 34)).max_seq == 700
