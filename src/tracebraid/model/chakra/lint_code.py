"""The codes of what a check of `.et` files finds; sentences, severities and advice stand in `lint_rules`."""

from __future__ import annotations

from enum import Enum

__all__ = ["LintCode", "Simulator"]


class Simulator(Enum):
    """A simulator whose own limits are checked as well."""

    ASTRA_SIM = "astra-sim"


class LintCode(str, Enum):
    """What was found: stable short names, which `--json` prints."""

    # Files and ranks
    FILE_UNREADABLE = "file-unreadable"
    FILE_DAMAGED = "file-damaged"
    FILE_NOTED = "file-noted"
    RANK_TWICE = "rank-twice"
    RANKS_MISSING = "ranks-missing"
    # Nodes of one rank
    NO_NODES = "no-nodes"
    NO_START_NODE = "no-start-node"
    ID_DUPLICATE = "id-duplicate"
    ID_NEGATIVE = "id-negative"
    TYPE_UNKNOWN = "type-unknown"
    DEPENDENCY_DANGLING = "dependency-dangling"
    DEPENDENCY_SELF = "dependency-self"
    DEPENDENCY_CYCLE = "dependency-cycle"
    DURATION_NEGATIVE = "duration-negative"
    # Communication of one rank
    COMMUNICATION_ON_HOST = "communication-on-host"
    COLLECTIVE_TYPE_MISSING = "collective-type-missing"
    COLLECTIVE_TYPE_UNKNOWN = "collective-type-unknown"
    SIZE_MISSING = "size-missing"
    SIZE_NEGATIVE = "size-negative"
    PEER_MISSING = "peer-missing"
    PEER_ABSENT = "peer-absent"
    PEER_IS_SELF = "peer-is-self"
    ISSUED_FOR_ANOTHER = "issued-for-another"
    ORDER_BY_TIME = "order-by-time"
    # Process groups
    GROUP_NOT_A_NUMBER = "group-not-a-number"
    GROUPS_NOT_GIVEN = "groups-not-given"
    GROUP_UNKNOWN = "group-unknown"
    GROUP_RANK_ABSENT = "group-rank-absent"
    GROUP_RANK_TWICE = "group-rank-twice"
    NOT_IN_GROUP = "not-in-group"
    # Across ranks
    COLLECTIVES_DIFFER = "collectives-differ"
    SIZES_DIFFER = "sizes-differ"
    COLLECTIVES_MISSING = "collectives-missing"
    SEND_WITHOUT_RECEIVE = "send-without-receive"
    RECEIVE_WITHOUT_SEND = "receive-without-send"
    DEADLOCK = "deadlock"
    # What ASTRA-sim does not do
    ASTRA_SINGLE_RANK = "astra-single-rank"
    ASTRA_WORLD_GROUP = "astra-world-group"
    ASTRA_COLLECTIVE = "astra-collective"
    ASTRA_SIZE_ZERO = "astra-size-zero"
    ASTRA_TAG_MISSING = "astra-tag-missing"
    ASTRA_METADATA = "astra-metadata"
    ASTRA_HOST_WORK = "astra-host-work"
    ASTRA_MANY_READY = "astra-many-ready"

    def __str__(self) -> str:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)
