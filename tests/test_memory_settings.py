"""The allocator's settings: OPENREG_ALLOC_CONF and _set_allocator_settings."""

import pytest
import torch
from interpreter import execute

MIB = 1 << 20


def bytes_of(size: float) -> torch.Tensor:
    return torch.empty(int(size), dtype=torch.uint8, device="openreg")


@pytest.fixture
def settings(clean_memory):
    yield torch.openreg.memory._set_allocator_settings
    torch.openreg.memory._set_allocator_settings("")


def allocated_for(size: float) -> float:
    before = torch.openreg.memory_allocated()
    a = bytes_of(size)  # noqa: F841
    return torch.openreg.memory_allocated() - before


def test_blocks_above_max_split_size_are_not_split(settings):
    settings("max_split_size_mb:32")
    big = bytes_of(64 * MIB)
    begin = big.data_ptr()
    del big
    small = bytes_of(4 * MIB)
    assert not begin <= small.data_ptr() < begin + 64 * MIB
    taken = bytes_of(60 * MIB)  # close in size: uses the whole block
    assert taken.data_ptr() == begin
    stats = torch.openreg.memory_stats()
    assert stats["max_split_size"] == 32 * MIB
    assert stats["oversize_allocations.current"] == stats["oversize_segments.current"] == 1
    del taken
    other = bytes_of(40 * MIB)  # 24 MiB would be wasted
    assert not begin <= other.data_ptr() < begin + 64 * MIB
    settings("")
    assert bytes_of(30 * MIB).data_ptr() == begin  # now the block is split
    assert torch.openreg.memory_stats()["max_split_size"] == -1


def test_sizes_are_rounded_by_power2_divisions(settings):
    assert allocated_for(1.3 * MIB) == pytest.approx(1.3 * MIB, abs=512)
    settings("roundup_power2_divisions:4")
    assert allocated_for(1.3 * MIB) == 1.5 * MIB
    assert allocated_for(2 * MIB) == 2 * MIB
    assert allocated_for(5000) == 5120
    assert allocated_for(100) == 512
    settings("roundup_power2_divisions:[1:1,2:2,>:8]")
    assert allocated_for(1.3 * MIB) == pytest.approx(1.3 * MIB, abs=512)
    assert allocated_for(2.2 * MIB) == 3 * MIB
    assert allocated_for(4.2 * MIB) == 4.5 * MIB
    assert allocated_for(9 * MIB) == 9 * MIB


def test_large_segment_size(settings):
    before = torch.openreg.memory_reserved()
    settings("large_segment_size_mb:40")
    a = bytes_of(2 * MIB)  # noqa: F841
    assert torch.openreg.memory_reserved() - before == 40 * MIB


def test_garbage_collection_frees_the_longest_idle_segments():
    program = """
        import torch
        MIB = 1 << 20
        def bytes_of(size):
            return torch.empty(size * MIB, dtype=torch.uint8, device="openreg")
        def segments():
            return sorted(one["total_size"] // MIB for one in torch.openreg.memory_snapshot())
        first, second = bytes_of(44), bytes_of(40)
        del first
        third = bytes_of(46)  # the first segment is idle for longer
        del second, third
        assert segments() == [40, 44, 46], segments()
        kept = bytes_of(48)  # 178 of 200 MiB exceed the threshold, 134 do not
        assert segments() == [40, 46, 48], segments()
        assert torch.openreg.memory_stats()["num_alloc_retries"] == 0
    """
    execute(program, OPENREG_MEMORY="200M", OPENREG_ALLOC_CONF="garbage_collection_threshold:0.75")


INVALID = {
    "max_split_size_mb:lots": "max_split_size_mb is 'lots': use a number of MiB above 20",
    "max_split_size_mb:20": "max_split_size_mb is '20'",
    "max_split_size_mb:": "'max_split_size_mb:' is not of the form key:value",
    "max_split_size_mb": "not of the form key:value",
    "max_non_split_rounding_mb:-1": "max_non_split_rounding_mb is '-1'",
    "large_segment_size_mb:1": "at least 20",
    "garbage_collection_threshold:1.5": "'1.5': use a number between 0 and 1",
    "garbage_collection_threshold:nan": "between 0 and 1",
    "roundup_power2_divisions:3": "'3': use a power of two",
    "roundup_power2_divisions:[1:2": "must end with ']'",
    "roundup_power2_divisions:[]": "empty list",
    "roundup_power2_divisions:[3:2]": "size '3': use increasing powers of two",
    "roundup_power2_divisions:[8:2,4:2]": "increasing",
    "roundup_power2_divisions:[>:2,4:2]": "'>' must be the last entry",
    "max_split_size_mb:21,large_segment_size_mb:64": "max_split_size_mb must be larger",
    "expandable_segments:True": "expandable segments are not supported",
    "backend:cudaMallocAsync": "unknown allocator setting 'backend': the settings are max_split_size_mb",
    "pinned_use_background_threads:True": "PYTORCH_ALLOC_CONF",
}


@pytest.mark.parametrize("text", INVALID)
def test_invalid_settings_raise(settings, text):
    settings("max_split_size_mb:77")
    with pytest.raises(ValueError) as raised:
        settings(text)
    assert INVALID[text] in str(raised.value)
    assert torch.openreg.memory_stats()["max_split_size"] == 77 * MIB  # settings are unchanged


def test_spaces_and_empty_entries_are_ignored(settings):
    settings(" max_split_size_mb : 50 , , garbage_collection_threshold:0.8,")
    assert torch.openreg.memory_stats()["max_split_size"] == 50 * MIB
    assert torch.openreg.memory._snapshot()["allocator_settings"]["garbage_collection_threshold"] == 0.8


def test_settings_from_environment_variables():
    program = """
        import torch
        torch.openreg.init()
        settings = torch.openreg.memory._snapshot()["allocator_settings"]
        print(torch.openreg.memory_stats()["max_split_size"] >> 20, settings["garbage_collection_threshold"])
    """
    ours, torchs = "max_split_size_mb:50", "max_split_size_mb:60,garbage_collection_threshold:0.5"
    assert execute(program, OPENREG_ALLOC_CONF=ours) == "50 0.0"
    assert execute(program, PYTORCH_ALLOC_CONF=torchs) == "60 0.5"
    assert execute(program, OPENREG_ALLOC_CONF=ours, PYTORCH_ALLOC_CONF=torchs) == "50 0.5"


def test_invalid_environment_raises_at_first_use_not_at_import():
    program = """
        import torch
        for _ in range(2):
            try:
                torch.ones(2, device="openreg")
            except ValueError as error:
                assert "unknown allocator setting 'speed'" in str(error) and "OPENREG_ALLOC_CONF" in str(error), error
            else:
                raise AssertionError
        torch.ones(2)
    """
    execute(program, OPENREG_ALLOC_CONF="speed:max")
