"""Answers about copies and fills of memory on devices."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = ["COPIES", "COPY_BANDWIDTH", "COPY_BANDWIDTH_SERIES", "CopyKind", "Direction", "HostWait"]


class CopyKind(Enum):
    """What is done to memory."""

    COPY = "copy"
    FILL = "fill"


class Direction(Enum):
    """From what to what memory is copied: host, device, peer device, or array."""

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
    """What the call waits for, by the API's documented behaviour."""

    COMPLETE = "complete"
    STAGED = "staged"
    NONE = "none"


COPIES = Table(
    "copies",
    "One row per sort of copy or fill, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("kind", Kind.TEXT, "`copy` or `fill`: see `CopyKind`"),
        Column("direction", Kind.TEXT, "`HtoD`, `DtoH`, ...: see `Direction`; null: a fill, or unknown"),
        Column(
            "source", Kind.TEXT, "memory that is read (`Pageable`, `Pinned`, `Device`, ...); null: unknown"
        ),
        Column("target", Kind.TEXT, "memory that is written; null: unknown"),
        Column(
            "pinned",
            Kind.BOOL,
            "whether the host's memory is pinned; null: no host memory, or the trace says not",
        ),
        Column("api", Kind.TEXT, "the call; null: no call is in the trace"),
        Column(
            "host_wait",
            Kind.TEXT,
            "what the call waits for: `complete`, `staged` or `none`, see `HostWait`; null: no call or direction known",
        ),
        Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none"),
        Column("count", Kind.INT, "how often"),
        Column("awaited", Kind.INT, "those whose call returned only after they had ended"),
        Column("sized", Kind.INT, "those whose size is known"),
        Column("bytes", Kind.INT, "sum of these sizes; null: none is known"),
        Column(
            "mean_bytes", Kind.FLOAT, "mean of these sizes; null: none is known outside of doubtful steps"
        ),
        Column("total_ns", Kind.INT, "sum of durations"),
        Column(
            "bandwidth_bytes_per_s",
            Kind.FLOAT,
            "bytes by time of those with a size and a duration, doubtful steps left out (`copy_bandwidth` has the mean "
            "over its changes instead, not weighted by time); null: none",
        ),
        Column("max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of a single one of these; null: none"),
        Column("kineto_bandwidth_bytes_per_s", Kind.FLOAT, "mean of Kineto's bandwidths; null: none"),
        Column("kineto_max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of Kineto's bandwidths; null: none"),
        DOUBTFUL,
    ),
)

_NAME = Column("name", Kind.TEXT, "`Memcpy` and the direction, or `Memset`; else the event's name")

COPY_BANDWIDTH = Table(
    "copy_bandwidth",
    "One row per device and sort of copy: how much bandwidth the copies that run at a time have together.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", Kind.TEXT, "device"),
        _NAME,
        Column("count", Kind.INT, "changes of the bandwidth after which some copy runs"),
        Column(
            "mean_bytes_per_s",
            Kind.FLOAT,
            "mean over these, each the same however long it lasts: not bytes by time, as `copies` has it",
        ),
        Column("std_bytes_per_s", Kind.FLOAT, "standard deviation of a sample; null for a single change"),
        Column("min_bytes_per_s", Kind.FLOAT, "lowest of all"),
        Column("p25_bytes_per_s", Kind.FLOAT, "lower quartile"),
        Column("p50_bytes_per_s", Kind.FLOAT, "median"),
        Column("p75_bytes_per_s", Kind.FLOAT, "upper quartile"),
        Column("max_bytes_per_s", Kind.FLOAT, "highest of all"),
        DOUBTFUL,
    ),
)

COPY_BANDWIDTH_SERIES = Table(
    "copy_bandwidth_series",
    "One row per change of the bandwidth of a sort of copy, by device, sort and time; it holds until the next row.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which the copy was launched; null: in none"),
        Column("device", Kind.TEXT, "device"),
        _NAME,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("running", Kind.INT, "copies that run from then on"),
        Column("bytes_per_s", Kind.FLOAT, "sum of their bandwidths"),
        DOUBTFUL,
    ),
)
