"""Model FLOPs against hardware FLOPs, and on what device."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json
from tests.unit.analysis.efficiency.made import BF16, FLOAT, called, tensor
from tests.unit.analysis.efficiency.test_counted_ops import launched
from tests.unit.linking.made import linked_of
from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.efficiency.peaks import known_peaks

Q, KV = tensor(BF16, 2, 4, 8, 16), tensor(BF16, 2, 4, 6, 16)
PAIRS = 2 * 4 * 8 * 6
SDPA = "aten::_scaled_dot_product_flash_attention"


def events() -> list[Json]:
    return launched(called(f"{SDPA}_backward", Q, Q, KV, KV), "flash_bwd", 1, 10)


def known(names: list[str], **more: Any) -> str | None:
    devices = [{"id": i, "name": name, **more} for i, name in enumerate(names)]
    peaks = known_peaks(linked_of(events(), header={"deviceProperties": devices}))
    return None if peaks is None else peaks.device


def test_scores_that_attention_computes_again_are_in_hardware_flops_alone() -> None:
    """Five products of equal size backward, of which the model needs four: twice those of the forward pass."""
    row = mfu(linked_of(events()), peak_flops=1e12).row(0, named=True)
    assert row["hardware_flops"] == 2 * PAIRS * 5 * 16
    assert row["model_flops"] == 2 * (2 * PAIRS * (16 + 16))


def test_a_part_of_a_device_has_no_peaks() -> None:
    assert known(["NVIDIA A100-SXM4-40GB"]) == "A100 SXM 40GB"
    assert known(["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]) is None
    assert known(["AMD Instinct MI300X"], numSms=304) == "MI300X"
    assert known(["AMD Instinct MI300X"], numSms=38) is None


@pytest.mark.parametrize(
    ("kernel", "dtype", "precision"),
    [
        ("nvjet_sss_128x128_32x6_2x1_v_bz_TNT", FLOAT, "tf32"),
        ("cutlass3x_sm90_tensorop_s64x128x8gemm_f32_f32_f32_f32_f32_128x128x32", FLOAT, "tf32"),
        ("ampere_sgemm_128x64_tn", FLOAT, "fp32"),
        ("nvjet_tst_128x128_64x6_2x1_v_bz_TNT", BF16, "bf16"),
    ],
)
def test_a_product_of_fp32_on_tensor_cores_is_tf32(kernel: str, dtype: str, precision: str) -> None:
    square = tensor(dtype, 64, 64)
    row = op_costs(linked_of(launched(called("aten::mm", square, square), kernel, 1, 10))).row(0, named=True)
    assert row["precision"] == precision
