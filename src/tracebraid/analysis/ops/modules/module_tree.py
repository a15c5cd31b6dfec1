"""Which nn.Module is each host event in, forward or backward?"""

from __future__ import annotations

from tracebraid.analysis.ops.modules.called_modules import called_modules
from tracebraid.analysis.ops.modules.carried_modules import carried_modules
from tracebraid.analysis.ops.modules.module_calls import module_calls
from tracebraid.analysis.ops.modules.module_rows import ModuleTree
from tracebraid.model.answers import ModuleSource
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["module_tree"]


def module_tree(linked: LinkedTrace) -> ModuleTree:
    """The modules of a rank, kept with the linked trace.

    The first of these that the trace has counts: marks of module calls among the Python functions (`with_stack`), the
    module hierarchy of TorchScript ops (`with_modules`), the functions that `nn.Module.__call__` called, and the
    same in the call stacks of old traces.

    Each event is in the module whose call is the nearest around it. A backward op is in the module of its forward op,
    which has the same sequence number; one whose forward op is unknown is where it is called. A module that a backward
    op calls, as checkpointing does, is where it was when it was called in the forward pass.
    """
    return linked.derived(_module_tree)


def _module_tree(linked: LinkedTrace) -> ModuleTree:
    calls = module_calls(linked)
    if calls is None or calls.source is ModuleSource.STACKS:
        carried = carried_modules(linked)
        if calls is None or carried.source is ModuleSource.MODULE_HIERARCHY:
            return carried
    return called_modules(linked, calls)
