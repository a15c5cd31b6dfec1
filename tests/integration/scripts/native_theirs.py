"""PyTorch's recorder on a function of a test's module, where it may crash: `native_theirs.py FILE MODULE FUNCTION`."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.integration.native import record_builtin

work = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
print(len(record_builtin(Path(sys.argv[1]), work)) > 1)
