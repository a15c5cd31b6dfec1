"""Tables of answers about launches, copies, queues and waits."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind


class Direction(Enum):
    """Source and destination memory of a copy: host, device, peer device, or array."""

    HOST_TO_DEVICE = "HtoD"
    DEVICE_TO_HOST = "DtoH"
    DEVICE_TO_DEVICE = "DtoD"
    PEER_TO_PEER = "PtoP"
    HOST_TO_HOST = "HtoH"
    HOST_TO_ARRAY = "HtoA"
    ARRAY_TO_HOST = "AtoH"
    ARRAY_TO_ARRAY = "AtoA"
    ARRAY_TO_DEVICE = "AtoD"
    DEVICE_TO_ARRAY = "DtoA"


class HostWait(Enum):
    """Wait of a copy's call, by the API's documented behaviour."""

    COMPLETE = "complete"
    STAGED = "staged"
    NONE = "none"


STEP_OF_EVENT = Column("step", Kind.TEXT, "the step in which the call lies; null: in none")


class SyncKind(Enum):
    """Kind of a call's wait."""

    DEVICE = "device"
    STREAM = "stream"
    EVENT = "event"
    COPY = "copy"
    ALLOCATION = "allocation"
    QUERY = "query"


class Launcher(Enum):
    """Launcher of device work; the first that applies counts."""

    GRAPH = "graph"
    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    UNKNOWN = "unknown"
