"""Answers about collectives over all ranks."""

from __future__ import annotations

from tracebraid.model.answers.columns import STEP
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "COLLECTIVES",
    "COLLECTIVE_BANDWIDTH",
    "COLLECTIVE_FIT",
    "COLLECTIVE_IMBALANCE",
    "COLLECTIVE_RANKS",
    "COLLECTIVE_TOTALS",
]

_INT, _FLOAT, _BOOL, _TEXT, _INTS = Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT, Kind.INTS

_RANK = Column("rank", _INT, "the rank")
_COLLECTIVE = Column(
    "collective", _INT, "its row in `matched_collectives`; null: a member that matches no other"
)
_STEP = Column("step", _TEXT, "the step in which it was issued, as its lowest rank says; null: in none")
_GROUP = Column(
    "group", _TEXT, "the group, the same for all ranks; of a member that matches no other, as it names it"
)
_DESCRIPTION = Column("description", _TEXT, "description of the process group; null: unknown")
_TYPE = Column("type", _TEXT, "what is communicated (`CollectiveType`); null: unknown")
_NAME = Column("name", _TEXT, "as the trace of its lowest rank names it")
_DTYPE = Column("dtype", _TEXT, "element type; null: unknown, or members differ")
_GROUP_SIZE = Column("group_size", _INT, "ranks of the group; null: unknown")
_SIZE = Column("size_bytes", _INT, "the size that nccl-tests' formula takes; null: unknown")
_LIBRARY = Column("library", _TEXT, "whose it is (NCCL, RCCL, gloo, ...); null: unknown")
_ALGORITHM = Column("algorithm", _TEXT, "NCCL's algorithm; null: no kernel's name says it")
_PROTOCOL = Column("protocol", _TEXT, "NCCL's protocol; null: no kernel's name says it")
_TRANSFER_METHOD = Column(
    "transfer_method", _TEXT, "how transfer is told from waiting (`TransferMethod`), for all members alike"
)
_IS_BOUND = Column(
    "is_bound",
    _BOOL,
    "a rank is not there that may have come later: the transfer is an upper bound; null: unknown whether all are",
)
_WIDTH = Column(
    "clock_width_ns", _INT, "how far the members' clocks may be from what is assumed; null: unknown"
)
_ALGORITHM_RATE = Column(
    "algorithm_bytes_per_s",
    _FLOAT,
    "size / transfer; null: the size is unknown, or the transfer takes no time",
)
_BUS_RATE = Column(
    "bus_bytes_per_s",
    _FLOAT,
    "the same times nccl-tests' factor; null: as there, or the group's size is unknown",
)

COLLECTIVES = Table(
    "collectives",
    "One row per collective, or member that matches no other, in the order of first arrivals.",
    (
        _COLLECTIVE,
        _STEP,
        _GROUP,
        _DESCRIPTION,
        Column("sequence", _INT, "number in its group, as the traces say; null: they do not"),
        _TYPE,
        _NAME,
        _DTYPE,
        _GROUP_SIZE,
        Column("ranks", _INTS, "ranks of which the member is there"),
        Column("missing", _INTS, "ranks of which it is not; null: the group's ranks are unknown"),
        Column("in_bytes", _INT, "what a rank gives, the most of all; null: unknown"),
        Column("out_bytes", _INT, "what a rank gets, the most of all; null: unknown"),
        _SIZE,
        _LIBRARY,
        _ALGORITHM,
        _PROTOCOL,
        Column("first_arrival_ns", _INT, "start of the first member, on aligned clocks"),
        Column("last_arrival_ns", _INT, "start of the last member"),
        Column("end_ns", _INT, "end of the last member"),
        Column("last_rank", _INT, "the last to arrive, by `transfer_method`; null: a single member is there"),
        Column("transfer_ns", _INT, "time of the transfer"),
        Column("waiting_ns", _INT, "waiting of all members together; null: unknown"),
        Column("rest_ns", _INT, "time of members that only send until a receiver has arrived, together"),
        _TRANSFER_METHOD,
        _IS_BOUND,
        _WIDTH,
        Column("method", _TEXT, "how the members were matched (`MatchMethod`); null: they are not"),
        Column("confidence", _FLOAT, "how sure that is, 0 to 1"),
        Column("agrees", _BOOL, "whether type, size and dtype agree between the members"),
        _ALGORITHM_RATE,
        _BUS_RATE,
    ),
)

COLLECTIVE_RANKS = Table(
    "collective_ranks",
    "One row per member of a collective, by rank and arrival: `waiting_ns` (null as 0), `transfer_ns` and `rest_ns` "
    "add up to `dur_ns`, exactly.",
    (
        _RANK,
        Column("step", _TEXT, "the step in which it was issued; null: in none"),
        _COLLECTIVE,
        _GROUP,
        _TYPE,
        Column("name", _TEXT, "as the trace names it"),
        Column("event_id", _INT, "its row in `events` of the rank's timeline"),
        Column("device", _TEXT, "device on which it runs; `cpu` on the host"),
        Column("stream", _TEXT, "stream, or thread, on which it runs"),
        Column("arrival_ns", _INT, "start, on aligned clocks"),
        Column("late_by_ns", _INT, "arrival after the first"),
        Column(
            "waiting_ns",
            _INT,
            "until the last has arrived from which it receives; null: none is there; too small where `is_bound`",
        ),
        Column("waited_for", _INT, "that rank; null: it did not wait, or the rank is unknown"),
        Column("transfer_ns", _INT, "the transfer, until its own end"),
        Column("rest_ns", _INT, "of a member that only sends, until the first receiver has arrived"),
        Column("dur_ns", _INT, "its duration"),
        Column("end_ns", _INT, "end, on aligned clocks"),
        Column("issued_ns", _INT, "start of the host's call that issued it; null: unknown"),
        Column("in_bytes", _INT, "what this rank gives; null: unknown"),
        Column("out_bytes", _INT, "what this rank gets; null: unknown"),
        _TRANSFER_METHOD,
        _IS_BOUND,
        _WIDTH,
    ),
)

COLLECTIVE_BANDWIDTH = Table(
    "collective_bandwidth",
    "One row per group, type, dtype, size, library, algorithm and protocol; what takes the most time first.",
    (
        STEP,
        _GROUP,
        _DESCRIPTION,
        _TYPE,
        _DTYPE,
        _GROUP_SIZE,
        _SIZE,
        _LIBRARY,
        _ALGORITHM,
        _PROTOCOL,
        Column("count", _INT, "collectives"),
        Column("bounds", _INT, "those of them whose transfer is, or may be, an upper bound"),
        Column("transfer_ns", _INT, "time of their transfers together"),
        Column("transfer_mean_ns", _FLOAT, "mean transfer"),
        Column("transfer_median_ns", _FLOAT, "median transfer"),
        Column("transfer_p95_ns", _FLOAT, "95th percentile of the transfers"),
        Column("transfer_min_ns", _INT, "shortest transfer"),
        Column("transfer_max_ns", _INT, "longest transfer"),
        Column("transfer_std_ns", _FLOAT, "standard deviation, of a sample; null for a single one"),
        Column(
            "algorithm_bytes_per_s",
            _FLOAT,
            "size / median transfer; null: the size is unknown, or the transfer takes no time",
        ),
        _BUS_RATE,
        Column("peak_share", _FLOAT, "bus bandwidth / `peak_bandwidth`; null: either is unknown"),
        Column(
            "waiting_share",
            _FLOAT,
            "waiting of members / durations, where it is known; null: nowhere, or they take no time",
        ),
    ),
)

COLLECTIVE_IMBALANCE = Table(
    "collective_imbalance",
    "One row per all-to-all whose sizes are known, as far as members are there, the most bytes beyond the mean first.",
    (
        _COLLECTIVE,
        _STEP,
        _GROUP,
        _DTYPE,
        _GROUP_SIZE,
        Column("ranks", _INTS, "ranks of which the member is there"),
        Column("is_uneven", _BOOL, "some member says how much goes to, or comes from, each rank"),
        Column("received_max_bytes", _INT, "most that a rank gets from the members that are there"),
        Column("received_mean_bytes", _FLOAT, "mean over all ranks of the group"),
        Column("received_imbalance", _FLOAT, "most / mean; null: nothing is sent, or sizes are unknown"),
        Column("received_most", _INT, "the rank that gets the most; null: sizes or ranks are unknown"),
        Column("sent_max_bytes", _INT, "most that a rank gives to the members that are there"),
        Column("sent_mean_bytes", _FLOAT, "mean over all ranks of the group"),
        Column("sent_imbalance", _FLOAT, "most / mean; null: nothing is sent, or sizes are unknown"),
        Column("sent_most", _INT, "the rank that gives the most; null: sizes or ranks are unknown"),
        Column("transfer_ns", _INT, "time of the transfer; see `collectives`"),
    ),
)

COLLECTIVE_FIT = Table(
    "collective_fit",
    "One row per group, type and library: time = alpha + bytes / beta, fitted to the transfers; by group and type.",
    (
        _GROUP,
        _DESCRIPTION,
        _TYPE,
        _GROUP_SIZE,
        _LIBRARY,
        Column("count", _INT, "collectives that are fitted, those of known size"),
        Column("sizes", _INT, "different sizes among them; the rest is null for fewer than 2"),
        Column("is_bound", _BOOL, "some transfer is, or may be, an upper bound: too few sizes have others"),
        Column("alpha_ns", _FLOAT, "time that does not depend on the size, not below 0"),
        Column("alpha_low_ns", _FLOAT, "lower end of its 95 % interval; null: fewer than 3 collectives"),
        Column("alpha_high_ns", _FLOAT, "upper end of it"),
        Column("beta_bytes_per_s", _FLOAT, "bandwidth; null: the time does not grow with the size"),
        Column("beta_low_bytes_per_s", _FLOAT, "lower end of its 95 % interval; null: as there"),
        Column("beta_high_bytes_per_s", _FLOAT, "upper end of it; null: as there, or there is none"),
        Column("error_share", _FLOAT, "median distance of a transfer from the fit / the fit"),
        Column(
            "r_squared",
            _FLOAT,
            "share of the transfers' variance that the fit explains, below 0: none; null: they do not vary",
        ),
    ),
)

COLLECTIVE_TOTALS = Table(
    "collective_totals",
    "One row per rank and group, by rank; sums over the rank's members. Members of several streams may run at once.",
    (
        _RANK,
        STEP,
        _GROUP,
        _DESCRIPTION,
        Column("count", _INT, "its members"),
        Column("dur_ns", _INT, "their durations"),
        Column("transfer_ns", _INT, "transfer, an upper bound where `bounds` is not 0"),
        Column("waiting_ns", _INT, "waiting for other ranks, as far as it is known; null: of no member"),
        Column("rest_ns", _INT, "time of members that only send until a receiver has arrived"),
        Column("bounds", _INT, "members whose transfer is, or may be, an upper bound"),
        Column("caused_ns", _INT, "waiting of other ranks for this one"),
        Column("times_last", _INT, "collectives at which others waited for it"),
        Column(
            "waiting_share",
            _FLOAT,
            "waiting / durations of the members of which it is known; null: of none, or they take no time",
        ),
    ),
)
