"""PyTorch's own tests of its observer, with ours in its place: `pytorch_tests.py test_execution_trace.py BACKEND`.

Those for accelerators that also work on a CPU run there. What became of each test is printed as JSON.
"""

import json
import runpy
import sys
import unittest
from typing import Any, ClassVar

import torch
from torch.testing._internal import common_device_type

import tracebraid


class Observer(tracebraid.ExecutionTraceObserver):
    """Ours, with the recorder that the command line names."""

    def __init__(self) -> None:
        super().__init__(sys.argv[2])


class Outcomes(unittest.TextTestResult):
    """Keeps the outcome of each test by its name."""

    by_name: ClassVar[dict[str, str]] = {}

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        unsuccessful = {"failed": [*self.failures, *self.errors], "skipped": self.skipped}
        found = [word for word, tests in unsuccessful.items() if test in [one for one, _ in tests]]
        self.by_name[test.id().rpartition(".")[2]] = found[0] if found else "passed"
        super().stopTest(test)


def main() -> None:
    torch.profiler.ExecutionTraceObserver = torch.profiler.profiler.ExecutionTraceObserver = Observer
    common_device_type.skipCPUIf = lambda *_: lambda test: test
    classes = [one for one in runpy.run_path(sys.argv[1]).values() if isinstance(one, type)]
    cases = [one for one in classes if one.__module__ == "<run_path>" and issubclass(one, unittest.TestCase)]
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases))
    outcomes: Any = Outcomes
    unittest.TextTestRunner(resultclass=outcomes).run(suite)
    print(json.dumps(Outcomes.by_name))


if __name__ == "__main__":
    main()
