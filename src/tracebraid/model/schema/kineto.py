"""Schema of a Kineto trace: the tables of a `Timeline`."""

from __future__ import annotations

from tracebraid.model.category import Category, Role
from tracebraid.model.column import Column, Kind, Table

_INT, _FLOAT, _BOOL, _NAME, _JSON, _TEXT, _INT3, _INTS = (
    Kind.INT,
    Kind.FLOAT,
    Kind.BOOL,
    Kind.NAME,
    Kind.JSON,
    Kind.TEXT,
    Kind.INT3,
    Kind.INTS,
)

_EVENT_ID = Column("event_id", _INT, "the event: its row in `events`")

EVENTS = Table(
    "events",
    "One row per event that has a time: complete events (`ph: X`) and instants with a category.",
    (
        _EVENT_ID,
        Column("name", _NAME, "the event's name"),
        Column("category", _NAME, "Kineto's category, `cat`, under its name of today"),
        Column("lane", _INT, "its lane: the row of `lanes` (process and thread, or device and stream)"),
        Column("ts_ns", _INT, "start"),
        Column("dur_ns", _INT, "duration; 0 for instants"),
    ),
)

LANES = Table(
    "lanes",
    "One row per (pid, tid) seen: a thread of a process, or a stream of a device.",
    (
        Column("lane", _INT, "row number"),
        Column("pid", _INT, "process id, or device for device events; null where the file has text"),
        Column("tid", _INT, "OS thread id, or stream; null where the file has text"),
        Column("pid_text", _TEXT, "the pid as text, if it is not a number (`Spans`)"),
        Column("tid_text", _TEXT, "the tid as text, if it is not a number"),
        Column("process_name", _TEXT, "from the file's metadata events"),
        Column("process_labels", _TEXT, "from the file's metadata events (`CPU`, `GPU 0`)"),
        Column("thread_name", _TEXT, "from the file's metadata events (`thread 17 (python)`, `stream 7`)"),
    ),
)

HOST_OPS = Table(
    "host_ops",
    "One row per operator or annotation on the host (`cpu_op`, `user_annotation`).",
    (
        _EVENT_ID,
        Column("external_id", _INT, "Kineto's correlation id of the op", ("External id",)),
        Column(
            "record_function_id",
            _INT,
            "id that equals the Execution Trace's rf_id; 0 or null: none was given",
            ("Record function id",),
        ),
        Column("input_dims", _JSON, "shape of each input, `[]` for none", ("Input Dims", "Input dims")),
        Column("input_types", _JSON, "type of each input", ("Input type",)),
        Column("input_strides", _JSON, "stride of each input, in elements", ("Input Strides",)),
        Column("concrete_inputs", _JSON, "value of each scalar input, as text", ("Concrete Inputs",)),
        Column("fwd_thread_id", _INT, "logical thread of the forward op; 0 on forward", ("Fwd thread id",)),
        Column("sequence_number", _INT, "autograd's sequence number", ("Sequence number",)),
        Column("ev_idx", _INT, "the profiler's own event number", ("Ev Idx", "Profiler Event Index")),
        Column("finished", _BOOL, "false: it was still open when the profiler stopped", ("finished",)),
        Column("call_stack", _NAME, "Python call stack, in traces before 2022", ("Call stack",)),
        Column("module_hierarchy", _NAME, "nn.Module path, if recorded", ("Module Hierarchy",)),
        Column("kernel_backend", _NAME, "`triton` on generated kernels", ("kernel_backend",)),
        Column("kernel_file", _NAME, "source of the generated kernel", ("kernel_file",)),
    ),
)

HOST_CALLS = Table(
    "host_calls",
    "One row per call of a runtime or driver API on the host.",
    (
        _EVENT_ID,
        Column(
            "external_id",
            _INT,
            "External id of the op that encloses the call",
            ("External id", "external id"),
        ),
        Column("callback_id", _INT, "number of the API function: `cbid`, `cid` on ROCm", ("cbid", "cid")),
        Column("correlation", _INT, "joins the call to the device's events", ("correlation",)),
    ),
)

DEVICE_WORK = Table(
    "device_work",
    "One row per kernel, copy, fill or other work on a device.",
    (
        _EVENT_ID,
        Column(
            "external_id",
            _INT,
            "External id of the launching op, or the correlation",
            ("External id", "external id"),
        ),
        Column("device", _INT, "device number", ("device",)),
        Column("context", _INT, "driver context", ("context",)),
        Column("stream", _INT, "stream; of kernels, copies and fills without it their thread", ("stream",)),
        Column("correlation", _INT, "joins the work to the launching call", ("correlation",)),
        Column("queued", _INT, "as the file has it; 0 where the driver gives none", ("queued",)),
        Column("registers_per_thread", _INT, "registers of a thread", ("registers per thread",)),
        Column("shared_memory_bytes", _INT, "shared memory of a block", ("shared memory",)),
        Column("blocks_per_sm", _FLOAT, "blocks for each multiprocessor", ("blocks per SM",)),
        Column("warps_per_sm", _FLOAT, "warps for each multiprocessor", ("warps per SM",)),
        Column("grid", _INT3, "blocks in x, y, z", ("grid",)),
        Column("block", _INT3, "threads of a block in x, y, z", ("block",)),
        Column(
            "occupancy_percent",
            _FLOAT,
            "occupancy, estimated by Kineto",
            ("est. achieved occupancy %",),
        ),
        Column("priority", _INT, "priority of the stream", ("priority",)),
        Column("graph_id", _INT, "CUDA graph that the work came from", ("graph id",)),
        Column("graph_node_id", _INT, "node of that graph", ("graph node id",)),
        Column("size_bytes", _INT, "bytes copied or filled", ("bytes", "size")),
        Column("bandwidth_gb_per_s", _FLOAT, "bandwidth by Kineto", ("memory bandwidth (GB/s)",)),
        Column("kind", _NAME, "kind of work, on ROCm", ("kind",)),
        Column("sequence", _INT, "sequence number of a device queue's packet, on MTIA", ("seq_num",)),
        Column("wait_on_stream", _INT, "stream that the work waits for, on MTIA", ("wait_on_stream",)),
    ),
)

COLLECTIVES = Table(
    "collectives",
    "One row per event with collective arguments: `record_param_comms` on the host, kernels on the device.",
    (
        _EVENT_ID,
        Column("collective_name", _NAME, "allreduce, all_gather, ...", ("Collective name",)),
        Column("in_msg_nelems", _INT, "elements of the input", ("In msg nelems",)),
        Column("out_msg_nelems", _INT, "elements of the output", ("Out msg nelems",)),
        Column("group_size", _INT, "ranks in the process group", ("Group size",)),
        Column("dtype", _NAME, "element type", ("dtype",)),
        Column("in_split_size", _JSON, "elements for each rank, of an uneven all-to-all", ("In split size",)),
        Column("out_split_size", _JSON, "elements from each rank", ("Out split size",)),
        Column("global_rank_start", _INT, "first rank of the group", ("Global rank start",)),
        Column("global_rank_stride", _INT, "step between its ranks", ("Global rank stride",)),
        Column("pg_name", _NAME, "process group", ("Process Group Name",)),
        Column("pg_desc", _NAME, "the process group's description", ("Process Group Description",)),
        Column("pg_ranks", _INTS, "global ranks of the process group", ("Process Group Ranks",)),
        Column("src_rank", _INT, "sender", ("Src Rank",)),
        Column("dst_rank", _INT, "receiver", ("Dst Rank",)),
        Column("sequence", _INT, "number of the collective in its process group", ("Seq",)),
        Column(
            "comms_id",
            _TEXT,
            "id of the collective in its group; in some traces of the communicator",
            ("Comms Id",),
        ),
    ),
)

SYNCS = Table(
    "syncs",
    "One row per synchronisation as the device saw it (`cuda_sync`).",
    (
        _EVENT_ID,
        Column("external_id", _INT, "External id of the op that encloses the call", ("External id",)),
        Column("kind", _NAME, "`Stream Wait Event`, `Event Sync`, ...", ("cuda_sync_kind",)),
        Column("stream", _INT, "stream that waits; -1 unknown", ("stream",)),
        Column("correlation", _INT, "joins it to the host's call", ("correlation",)),
        Column("device", _INT, "device number", ("device",)),
        Column("context", _INT, "driver context", ("context",)),
        Column("wait_on_stream", _INT, "stream that is waited for; -1 unknown", ("wait_on_stream",)),
        Column(
            "wait_on_event_record_correlation",
            _INT,
            "correlation of the call that recorded the event; -1 unknown",
            ("wait_on_cuda_event_record_corr_id",),
        ),
        Column("wait_on_event_id", _INT, "the event; -1 unknown", ("wait_on_cuda_event_id",)),
    ),
)

PYTHON_FUNCTIONS = Table(
    "python_functions",
    "One row per Python function call (`with_stack`).",
    (
        _EVENT_ID,
        Column("python_id", _INT, "the call", ("Python id",)),
        Column("python_parent_id", _INT, "the call that encloses it", ("Python parent id",)),
        Column("python_module_id", _INT, "instance of the nn.Module", ("Python module id",)),
        Column("called_from", _NAME, "`file:line` of the call; null: torch before 2.14", ("CallFrom",)),
        Column("ev_idx", _INT, "the profiler's own event number", ("Ev Idx",)),
    ),
)

MEMORY = Table(
    "memory",
    "One row per allocation or release (`[memory]` instants).",
    (
        _EVENT_ID,
        Column("total_reserved_bytes", _INT, "reserved by the allocator, after it", ("Total Reserved",)),
        Column("total_allocated_bytes", _INT, "allocated, after it", ("Total Allocated",)),
        Column("size_bytes", _INT, "allocated (+) or released (-)", ("Bytes",)),
        Column("address", _INT, "address", ("Addr",)),
        Column("device_id", _INT, "device number", ("Device Id",)),
        Column("device_type", _INT, "c10::DeviceType: 0 CPU, 1 CUDA", ("Device Type",)),
        Column("ev_idx", _INT, "the profiler's own event number", ("Ev Idx",)),
    ),
)

FLOWS = Table(
    "flows",
    "One row per end of a flow arrow (`ph` s, t or f).",
    (
        Column("flow_id", _INT, "the arrow; the correlation for `ac2g`"),
        Column(
            "category",
            _NAME,
            "`ac2g` (launch to work; before 2022-10 `async_cpu_to_gpu`) or `fwdbwd` (to backward)",
        ),
        Column("phase", _NAME, "s start, t step, f finish"),
        Column("lane", _INT, "row of `lanes`"),
        Column("ts_ns", _INT, "time of that end"),
    ),
)

EXTRA_ARGS = Table(
    "extra_args",
    "One row per argument that no table above has a column for.",
    (
        _EVENT_ID,
        Column("key", _NAME, "its name"),
        Column("value", _TEXT, "its value, as JSON text"),
    ),
)

UNUSABLE_DURATIONS = Table(
    "unusable_durations",
    "One row per complete event with an invalid duration; it is in `events` with duration 0.",
    (
        _EVENT_ID,
        Column(
            "duration",
            _TEXT,
            "as the file has it, in µs: negative, huge, no number, or impossible; null: missing",
        ),
    ),
)

OTHER_EVENTS = Table(
    "other_events",
    "One row per event that fits none of the tables above: counters, unknown phases, no readable time.",
    (
        Column("phase", _NAME, "`ph`"),
        Column("json", _TEXT, "the whole event, as JSON text"),
    ),
)

KINETO_TABLES = (
    EVENTS,
    LANES,
    HOST_OPS,
    HOST_CALLS,
    DEVICE_WORK,
    COLLECTIVES,
    SYNCS,
    PYTHON_FUNCTIONS,
    MEMORY,
    FLOWS,
    EXTRA_ARGS,
    UNUSABLE_DURATIONS,
    OTHER_EVENTS,
)

_DETAIL_TABLES = {
    Role.OP: (HOST_OPS, COLLECTIVES),
    Role.ANNOTATION: (HOST_OPS,),
    Role.CALL: (HOST_CALLS,),
    Role.DEVICE_WORK: (DEVICE_WORK, COLLECTIVES),
    Role.SYNC: (SYNCS,),
    Role.PYTHON: (PYTHON_FUNCTIONS,),
    Role.INSTANT: (MEMORY,),
}
DETAIL_TABLES_BY_CATEGORY: dict[str, tuple[Table, ...]] = {
    category.value: _DETAIL_TABLES[category.role] for category in Category if category.role in _DETAIL_TABLES
}
"""Tables of the arguments of a category; arguments of other categories go to `extra_args`.

The last table of two holds only the rows that have its first column.
"""
