"""Do losses add up, and does what is unknown stay unknown?"""

from __future__ import annotations

import pytest

from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.reports.machine import finding_data


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Loss(1, 1, 10), Loss(2, 2, 5), Loss(3, 3, 15)),
        (Loss(1, 4, 10), Loss(2, 2), Loss(3, 6, 10)),
        (Loss(1, 1, 10), Loss(2, None, 5), Loss(3, None, 15)),
        (Loss(), Loss(), Loss(0, None, 0)),
    ],
)
def test_losses_add_up(first: Loss, second: Loss, both: Loss) -> None:
    assert first + second == both
    assert second + first == both


def test_each_kind_of_loss_reads_otherwise() -> None:
    losses = [Loss(), Loss(3), Loss(3, 3), Loss(3, 5), Loss(3, 3, 7)]
    assert len({str(loss) for loss in losses}) == len(losses)


def test_the_json_of_a_finding_has_its_loss_where_there_is_one() -> None:
    assert "loss" not in finding_data(Finding(FindingCode.TRUNCATED))
    data = finding_data(Finding(FindingCode.TRUNCATED, loss=Loss(2, None, 9)))
    assert data["loss"] == {"at_least": 2, "at_most": None, "skipped_bytes": 9}
