"""The Execution Trace of a scene: a node for each op and annotation, nested as they are, without tensors."""

from __future__ import annotations

from tests.builders import Json, node, process_node, thread_node
from tests.planted.events import ANNOTATION, OP, Planted
from tests.planted.scene import Scene

_FIRST = 10_000
"""Node ids count from here on, in the order in which ops begin; thread roots have 100 and their number."""

_USER_SCOPE, _BACKWARD = 7, 1


def nodes_of(scene: Scene) -> list[Json]:
    """The nodes, for `scene.linked(nodes_of(scene))`: each is linked with its op by the record function id."""
    roots = [thread_node(_root(thread.number), thread.number) for thread in scene.threads]
    number_of = {thread.tid: thread.number for thread in scene.threads}
    ops = [_node(event, number_of[event.tid]) for event in scene.of_category(OP, ANNOTATION)]
    return [*roots, *ops, process_node()]


def node_id_of(event: Planted) -> int:
    """The node of an op."""
    return _FIRST + event.rf_id


def _root(thread: int) -> int:
    return 100 + thread


def _node(event: Planted, thread: int) -> Json:
    parent = node_id_of(event.op) if event.op is not None else _root(thread)
    forward_thread = event.args.get("Fwd thread id", 0)
    scope = _USER_SCOPE if event.category == ANNOTATION else _BACKWARD if forward_thread else 0
    return node(
        node_id_of(event),
        event.name,
        parent,
        rf_id=event.rf_id,
        seq_id=event.args.get("Sequence number", -1),
        fw_tid=forward_thread,
        tid=thread,
        scope=scope,
    )
