"""What is left out of names that are too long."""

from __future__ import annotations

from tracebraid.reports.names import distinct_names

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
GEMM = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize{}_stage4_warpsize2x2x1_tensor16x8x16_kernel"


def test_names_that_fit_stay() -> None:
    assert distinct_names(["a", "b", "a"], 10) == ["a", "b", "a"]


def test_arguments_go_first_then_namespaces() -> None:
    call = ADD[len("void ") : ADD.rindex("(")]
    assert distinct_names([ADD], len(call)) == [call]
    bare = "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul> >"
    assert distinct_names([ADD], len(bare)) == [bare]


def test_arguments_stay_where_they_alone_tell_apart() -> None:
    names = ["void at::native::" + "x" * 40 + f"<{'y' * 40}>({kind})" for kind in ("int", "long")]
    first, second = distinct_names(names, 40)
    assert "int" in first
    assert "long" in second


def test_the_part_in_which_names_differ_is_shown() -> None:
    tiles = ["128x128x32", "256x128x32", "64x64x64"]
    for tile, text in zip(tiles, distinct_names([GEMM.format(tile) for tile in tiles], 48), strict=True):
        assert tile in text


def test_a_short_name_is_not_taken_by_a_long_name() -> None:
    long = "void ns::" + "kernel" * 3 + "(int, int, int, int, int)"
    short = "kernel" * 3
    shown = distinct_names([long, short], 20)
    assert shown[1] == short
    assert shown[0] != short


def test_names_of_any_length_are_shortened() -> None:
    names = [f"{'(' * 5_000}{number}{'a::' * 5_000}" for number in range(3)]
    shown = distinct_names(names, 30)
    assert len(set(shown)) == len(names)
    assert all(len(text) <= 30 for text in shown)
