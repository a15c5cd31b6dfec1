"""Files without a rank are paired by the number in their names, where that is unambiguous."""

from __future__ import annotations

from tracebraid.importers.discovery.pairing import pair_by_number
from tracebraid.importers.discovery.sniff import ET, KINETO, Found


def paired(*files: tuple[str, str, int | None]) -> tuple[dict[str, int | None], int]:
    """Each file's rank, and the number of findings, from (path, kind, known rank)."""
    found, findings = pair_by_number([Found(path, kind, rank) for path, kind, rank in files])
    assert {one.code for one in findings} <= {"paired-by-number"}
    return {one.path: one.rank for one in found}, len(findings)


def test_the_rank_of_one_file_is_the_number_in_the_name_of_the_other() -> None:
    files = [(f"worker{n}_step_12.16941282{n}00000.pt.trace.json", KINETO, n) for n in (3, 4)]
    ranks, count = paired(*files, ("dlrm_eg_4.json", ET, None))
    assert ranks["dlrm_eg_4.json"] == 4
    assert count == 1


def test_each_of_many_finds_its_own() -> None:
    ets = [(f"dlrm_eg_{n}.json", ET, None) for n in range(12)]
    kinetos = [(f"worker{n}.json", KINETO, n) for n in range(12)]
    ranks, count = paired(*ets, *kinetos)
    assert [ranks[f"dlrm_eg_{n}.json"] for n in range(12)] == list(range(12))
    assert count == 12


def test_two_files_that_say_no_rank_are_paired_by_their_number() -> None:
    ranks, count = paired(("a_5.json", ET, None), ("b_5.json", KINETO, None), ("b_6.json", KINETO, None))
    assert ranks == {"a_5.json": 5, "b_5.json": 5, "b_6.json": None}
    assert count == 2


def test_several_windows_of_a_rank_are_one_rank() -> None:
    ranks, _ = paired(("eg_4.json", ET, None), ("worker4_a.json", KINETO, 4), ("worker4_b.json", KINETO, 4))
    assert ranks["eg_4.json"] == 4


def test_a_number_that_two_files_of_a_kind_have_pairs_none() -> None:
    ranks, count = paired(("x_4.json", ET, None), ("y_4.json", ET, None), ("worker4.json", KINETO, 4))
    assert (ranks["x_4.json"], ranks["y_4.json"], count) == (None, None, 0)


def test_a_name_with_two_such_numbers_pairs_with_none() -> None:
    ranks, count = paired(("eg_3_4.json", ET, None), *((f"worker{n}.json", KINETO, n) for n in (3, 4)))
    assert (ranks["eg_3_4.json"], count) == (None, 0)


def test_a_time_in_a_name_is_no_number() -> None:
    ranks, count = paired(("eg_1694128201.json", ET, None), ("worker.json", KINETO, 1694128201))
    assert (ranks["eg_1694128201.json"], count) == (None, 0)


def test_a_rank_that_is_known_stays() -> None:
    assert paired(("et_2.json", ET, 2), ("worker4.json", KINETO, 4)) == (
        {"et_2.json": 2, "worker4.json": 4},
        0,
    )
