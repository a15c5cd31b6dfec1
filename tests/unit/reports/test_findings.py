"""Is the result of a check shown whole, in order, and as it stands?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from rich.console import Console

from tracebraid.model.check import Check, CheckedRank, Diagnosis, Repair
from tracebraid.model.coverage import Count, Coverage
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.model.graph import ReplayError
from tracebraid.reports.check import (
    check_data,
    check_table,
    clock_lines,
    diagnosis_text,
    repair_data,
    repair_lines,
    verdict,
)
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.findings import alike, line_of_alike
from tracebraid.validation.advice import diagnose


def rank(
    number: int = 0,
    linked: int = 4,
    window: str = "",
    et: str | None = "in/et.json",
    gpu: int = 0,
    nodes: int = 5,
) -> CheckedRank:
    counts = (Count(4, linked, {}), Count(nodes, linked, {}), Count(gpu, gpu, {}))
    coverage = Coverage(*counts, (gpu, gpu), (), et is not None)
    return CheckedRank(number, window, et, "in/kineto.json", ("ProfilerStep#3", "ProfilerStep#5"), coverage)


def rows(check: Check) -> list[str]:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with console.file:
        console.print(check_table(check, 200))
        return [" ".join(line.split()) for line in console.export_text().splitlines()]


def checked(*ranks: CheckedRank, findings: Sequence[Finding] = ()) -> Check:
    return Check("job", ranks, diagnose(findings))


# --- the table --------------------------------------------------------------------------------------


def test_a_row_has_steps_shares_and_files() -> None:
    text = rows(checked(rank(3, gpu=7)))[-1]
    assert text == "3 ProfilerStep#3 to #5 (2) 4 100.0 % 4 80.0 % 7 100.0 % et.json, kineto.json"


def test_what_is_not_there_is_a_dash() -> None:
    unread = CheckedRank(1, "", None, None, (), None)
    assert [line.split(maxsplit=1)[0] for line in rows(checked(rank(et=None), unread))[2:]] == ["0", "1"]
    assert rows(checked(rank(et=None)))[-1].endswith("(2) - - - kineto.json")
    assert rows(checked(unread))[-1] == "1 none - - -"


def test_windows_have_a_column_only_where_there_are_some() -> None:
    assert "window" not in rows(checked(rank()))[0]
    told = rows(checked(rank(0, window="window_0"), rank(0, window="window_1")))
    assert "window" in told[0]
    assert [line.split()[1] for line in told[2:]] == ["window_0", "window_1"]


@pytest.mark.parametrize(("count", "more"), [(16, 0), (17, 1), (100, 84)])
def test_of_many_ranks_those_that_link_least_are_shown_and_the_others_counted(count: int, more: int) -> None:
    told = rows(checked(*(rank(number, linked=1 if number == count - 1 else 4) for number in range(count))))
    shown = [int(line.split()[0]) for line in told if line[:1].isdigit() and "ProfilerStep" in line]
    assert shown == [*range(15), count - 1]
    assert any(f"{more} more ranks" in line for line in told) == (more > 0)


def test_where_there_is_no_room_the_files_are_left_out_not_cut() -> None:
    table = check_table(checked(rank(et="in/torch_et_0.json.gz", gpu=123)), 80)
    assert [column.header for column in table.columns][-1] == "GPU events attributed"
    assert table.caption == "no room for: files"


def test_names_in_cells_are_no_markup() -> None:
    (one,) = [rank(et="in/[bold]x[].json")]
    assert "[bold]x[].json" in rows(checked(one))[-1]


# --- findings and the verdict -----------------------------------------------------------------------


def test_a_diagnosis_is_two_lines_of_what_and_what_to_do() -> None:
    one = Diagnosis(
        Finding.of(FindingCode.WINDOW_UNREADABLE, "file", "byte 7", 3, problem="went wrong"),
        Severity.ERROR,
        "Mend it",
    )
    assert diagnosis_text(one) == "error: file, byte 7: went wrong (3 times)\n  Mend it"


def test_a_name_in_a_finding_cannot_break_its_line_or_steer_a_terminal() -> None:
    one = Diagnosis(
        Finding.of(FindingCode.WINDOW_UNREADABLE, problem="a\nb\x1b[2Jc\u202e"), Severity.NOTE, "x"
    )
    assert diagnosis_text(one) == "note: a\\nb\\x1b[2Jc\\u202e\n  x"


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        ([], "it links; no problems found"),
        (["no-steps"], "it links; 1 note"),
        (["parents-differ", "base-time", "no-steps"], "it links; 2 warnings, 1 note"),
        (["no-overlap", "no-et", "no-steps"], "it links, but it is not sound; 2 errors, 1 note"),
    ],
)
def test_the_verdict_is_one_line_with_counts(codes: list[str], text: str) -> None:
    assert (
        verdict(checked(rank(nodes=4), findings=[Finding(FindingCode.of(code)) for code in codes]))
        == f"job: {text}"
    )


@pytest.mark.parametrize(
    ("linked", "text"),
    [((4, 4), "it links; no problems found"), ((4, 3), "it links, 87.5 % of 8 nodes; no problems found")],
)
def test_the_verdict_says_how_many_nodes_of_all_ranks_have_no_event(
    linked: tuple[int, ...], text: str
) -> None:
    """`check` and `capture` say it by this sentence."""
    ranks = [rank(number, linked=count, nodes=4) for number, count in enumerate(linked)]
    assert verdict(checked(*ranks)) == f"job: {text}"


def test_the_data_of_a_check_has_everything() -> None:
    found = checked(rank(2, window="window_1"), findings=[Finding(FindingCode.NO_STEPS, "file", "byte 1", 2)])
    data = check_data(found)
    assert (data["path"], data["links"]) == ("job", True)
    (one,) = data["ranks"]
    assert (one["rank"], one["window"], one["et"]) == (2, "window_1", "in/et.json")
    assert one["linked"]["host_ops"] == {"total": 4, "linked": 4, "by_method": {}}
    (told,) = data["findings"]
    assert told.pop("advice")
    assert told == {
        "severity": "note",
        "code": "no-steps",
        "message": found.diagnoses[0].finding.message,
        "path": "file",
        "where": "byte 1",
        "count": 2,
    }


# --- repairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ((7,), "1 of 9 nodes have another parent now (nodes 7)"),
        ((7, 8, 9), "3 of 9 nodes have another parent now (nodes 7, 8, 9)"),
        ((5, 6, 7, 8), "4 of 9 nodes have another parent now (nodes 5, 6, 7, ...)"),
        ((), "0 of 9 nodes have another parent now"),
    ],
)
def test_a_repair_says_what_it_changed_and_where_the_original_is(changed: tuple[int, ...], text: str) -> None:
    assert repair_lines([Repair("in/et.json", 9, changed, True)]) == [
        f"in/et.json: {text}; the original is et.json.orig"
    ]


def test_a_repair_that_changed_nothing_says_so() -> None:
    done = [Repair("et.json", 9, (), False)]
    assert repair_lines(done) == ["et.json: nothing to repair"]
    assert repair_data(done) == [{"path": "et.json", "nodes": 9, "written": False, "changed": [], "left": []}]


@pytest.mark.parametrize(("hosts", "count"), [(("a", "a"), 0), (("a", "b"), 1), ((None, None), 0)])
def test_clocks_of_several_hosts_are_a_line(hosts: tuple[str | None, str | None], count: int) -> None:
    clocks = [{"host": host, "offset_ns": 1_500 * number} for number, host in enumerate(hosts)]
    ranks = [replace(rank(number), clock=clock) for number, clock in enumerate(clocks)]
    lines = clock_lines(checked(*ranks))
    assert len(lines) == count
    assert all("differ by at most 1.500 µs" in line for line in lines)


# --- Findings that say the same of several files are one line ----------------------------------------


CUT = Finding.of(FindingCode.TRUNCATED, "a.json", "byte 7")


def of_files(count: int) -> list[Finding]:
    return [replace(CUT, path=f"{number}.json", where=f"byte {number}") for number in range(count)]


def test_the_same_in_128_files_is_one_line_that_names_the_first() -> None:
    groups = alike(of_files(128))
    assert [len(same) for same in groups] == [128]
    line = line_of_alike(groups[0])
    assert "128" in line
    assert "0.json, byte 0" in line
    assert "1.json" not in line
    assert "\n" not in line


def test_what_differs_and_what_is_of_no_file_stays_apart() -> None:
    other = Finding.of(FindingCode.COMPRESSION_DAMAGED, "b.json", compression="gzip")
    nowhere = Finding.of(FindingCode.TRUNCATED)
    given = [CUT, other, nowhere, nowhere]
    groups = alike(given)
    assert groups == [[finding] for finding in given]
    assert [line_of_alike(same) for same in groups] == [str(finding) for finding in given]


def test_two_of_one_file_stay_apart() -> None:
    second = replace(CUT, where="byte 9")
    assert alike([CUT, second]) == [[CUT], [second]]


def test_losses_and_counts_of_all_files_are_added() -> None:
    lost = [replace(finding, count=2, loss=Loss(5, 5, 100)) for finding in of_files(3)]
    whole = line_of_alike(lost)
    assert str(Loss(15, 15, 300)) in whole
    assert "6 times" in whole


# --- The error of the model, in words ----------------------------------------------------------------


def test_nothing_compared_has_no_line() -> None:
    assert error_lines(ReplayError()) == []


def test_a_percentile_needs_several_steps() -> None:
    alone = error_lines(ReplayError(1, 0.01, 0.03))
    several = error_lines(ReplayError(2, 0.01, 0.03))
    assert ["3.0 %" in line for line in (*alone, *several)] == [False, True]


def test_a_large_modelled_share_is_stated() -> None:
    lines = error_lines(ReplayError(1, 0.001, 0.001, modelled_share=0.978))
    assert "97.8 %" in lines[0]
