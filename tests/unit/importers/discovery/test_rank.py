"""Which rank does a file's name tell, and when does it tell none?"""

from __future__ import annotations

import pytest

from tracebraid.importers.discovery.rank import rank_from_name


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("torch_et_3.json", 3),
        ("torch_et_12.json.gz", 12),
        ("kineto_trace_0.json", 0),
        ("kineto_trace_12.json.gz", 12),
        ("nsys_4.nsys-rep", 4),
        ("rank-3.pt.trace.json.gz", 3),
        ("rank-3.1735689600.pt.trace.json.gz", 3),
        ("rank-0_step-5.json", 0),
        ("step_5_rank_3.json", 3),
        ("rank3.json", 3),
        ("rank_3.json", 3),
        ("rank.3.json", 3),
        ("Rank03.json", 3),
        ("RANK_7_et.json", 7),
        ("a100_ddp_nccl_rank0of2.json", 0),
        ("sampled_rank-1.json.gz", 1),
        ("worker5.1735.pt.trace.json", 5),
        ("worker_5.json", 5),
        ("trace-5.json", 5),
        ("trace_r3.json", 3),
        ("r3.json", 3),
        ("et-2.json.gz", 2),
        ("pytorch_et_2.json", 2),
        ("chakra_host_et_3.json", 3),
        ("/runs/a/torch_et_3.json", 3),
        ("/runs/rank_4/trace.json", 4),
        ("/runs/rank_4/rank_5.json", 5),
        ("C:/runs/rank-1/x.json", 1),
    ],
)
def test_a_name_tells_its_rank(name: str, rank: int) -> None:
    assert rank_from_name(name) == rank


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "-",
        "standard input",
        "trace.json",
        "rank.json",
        "rank-.json",
        "host_1234.1735689600.pt.trace.json",
        "frank3.json",
        "crank-3.json",
        "var3.json",
        "v100.json",
        "a100_event_sync.json",
        "step_5.json",
        "resnet_2gpu_1.1.0.json.gz",
        "/rank_3/runs/trace.json",
        "dataset_2.json",
        "target_5.json",
        "my_asset_7.json",
        "budget-3.json",
        "backtrace_5.json",
        "trace_20250101.json",
        "kineto_trace_1735689600123.json",
    ],
)
def test_a_name_without_a_rank_tells_none(name: str) -> None:
    assert rank_from_name(name) is None
