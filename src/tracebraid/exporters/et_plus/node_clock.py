"""When can each node of an ET+ file have begun, as one who runs it node by node sees it?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tracebraid.model.execution_trace import ExecutionTrace

__all__ = ["NEVER", "NodeClock"]

NEVER = -(2**63)
"""Before all times: the time of nodes ahead of the first that has one."""


class NodeClock:
    """A time for each node that rises along every order there is between nodes but the dependencies to be added.

    Who runs the nodes of a thread takes them from its root down, in the order of ids, and takes device work last among
    the children of its op: as Chakra's converter does. The time of a node is the latest start of all nodes up to it.
    Parents never come after their children. If every further dependency leads from an earlier time to a later one,
    all of them together close no cycle.
    """

    def __init__(self, et: ExecutionTrace, start_ns: dict[int, int]) -> None:
        """Walk the nodes of a trace, given the starts of those that have one."""
        self._time: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        children: dict[int, list[int]] = defaultdict(list)
        nodes = et.nodes.sort("node_id").select("node_id", "parent_id", "is_root").rows()
        known = {node for node, _, _ in nodes}
        tops = []
        for node, parent, is_root in nodes:
            if is_root or parent is None or parent == node or parent not in known:
                tops.append(node)
            else:
                children[parent].append(node)
        self._walk(tops, children, start_ns)
        self._walk([node for node, _, _ in nodes if node not in self._time], children, start_ns)

    def _walk(self, tops: Iterable[int], children: dict[int, list[int]], start_ns: dict[int, int]) -> None:
        for top in tops:
            latest = NEVER
            stack = [(top, False)]
            while stack:
                node, done = stack.pop()
                if done:
                    self._behind[node] = latest
                elif node not in self._time:
                    latest = max(latest, start_ns.get(node, NEVER))
                    self._time[node] = latest
                    stack.append((node, True))
                    stack += [(child, False) for child in reversed(children[node])]

    def of(self, node: int) -> int:
        """The time of a host node, ns."""
        return self._time[node]

    def of_device_work(self, start_ns: int, node: int | None) -> int:
        """The time of device work under a host node: that of the last node inside it, or its own start if later."""
        return start_ns if node is None else max(start_ns, self._behind[node])
