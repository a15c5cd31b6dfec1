"""The tables: what each row is, what each column means, its type and its unit.

Times are int64 nanoseconds on the unix clock. `event_id` is the row of `Timeline.events`, in the order
of the file; it joins every table of a timeline. `node_id` is the id of a node of an Execution Trace.
The first part holds what is in a Kineto trace, the second what is in an Execution Trace, the third what
linking adds. The tables that analyses answer with stand in `answers.py`.
"""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "COLLECTIVES",
    "DETAIL_TABLES_BY_CATEGORY",
    "DEVICE_LINKS",
    "DEVICE_WORK",
    "ET_COLLECTIVES",
    "ET_EXTRA_ATTRS",
    "ET_NODES",
    "ET_TENSORS",
    "ET_TENSOR_EDGES",
    "ET_TENSOR_USES",
    "ET_VALUES",
    "EVENTS",
    "EXTRA_ARGS",
    "FLOWS",
    "FORWARD_BACKWARD",
    "HOST_CALLS",
    "HOST_LINKS",
    "HOST_OPS",
    "HOST_TREE",
    "KINETO_TABLES",
    "LANES",
    "MEMORY",
    "NODE_LINKS",
    "OTHER_EVENTS",
    "PROCESS_GROUPS",
    "PYTHON_FUNCTIONS",
    "SYNCS",
]

_INT, _FLOAT, _BOOL = Kind.INT, Kind.FLOAT, Kind.BOOL
_NAME, _JSON, _TEXT, _INT3, _INTS = Kind.NAME, Kind.JSON, Kind.TEXT, Kind.INT3, Kind.INTS

_EVENT_ID = Column("event_id", _INT, "the event: its row in `events`")
_NODE_ID = Column("node_id", _INT, "the Execution Trace node")

# --- Kineto -----------------------------------------------------------------------------------------

EVENTS = Table(
    "events",
    "One row per event that has a place in time: complete events (`ph: X`) and instants with a category.",
    (
        _EVENT_ID,
        Column("name", _NAME, "the event's name"),
        Column("category", _NAME, "Kineto's category, `cat`"),
        Column("lane", _INT, "where it ran: the row of `lanes` (process and thread, or device and stream)"),
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
        Column("pid_text", _TEXT, "the pid as text, where it is no number (`Spans`)"),
        Column("tid_text", _TEXT, "the tid as text, where it is no number"),
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
        Column("module_hierarchy", _NAME, "nn.Module path, where recorded", ("Module Hierarchy",)),
        Column("kernel_backend", _NAME, "`triton` on generated kernels", ("kernel_backend",)),
        Column("kernel_file", _NAME, "source of the generated kernel", ("kernel_file",)),
    ),
)

HOST_CALLS = Table(
    "host_calls",
    "One row per call of a runtime or driver API on the host.",
    (
        _EVENT_ID,
        Column("external_id", _INT, "External id of the op around the call", ("External id",)),
        Column("callback_id", _INT, "number of the API function: `cbid`, `cid` on ROCm", ("cbid", "cid")),
        Column("correlation", _INT, "joins the call to the device's events", ("correlation",)),
    ),
)

DEVICE_WORK = Table(
    "device_work",
    "One row per kernel, copy, fill or other work on a device.",
    (
        _EVENT_ID,
        Column("external_id", _INT, "External id of the launching op, or the correlation", ("External id",)),
        Column("device", _INT, "device number", ("device",)),
        Column("context", _INT, "driver context", ("context",)),
        Column("stream", _INT, "stream", ("stream",)),
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
        Column("comms_id", _TEXT, "communicator", ("Comms Id",)),
    ),
)

SYNCS = Table(
    "syncs",
    "One row per synchronisation as the device saw it (`cuda_sync`).",
    (
        _EVENT_ID,
        Column("external_id", _INT, "External id of the op around the call", ("External id",)),
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
        Column("python_parent_id", _INT, "the call around it", ("Python parent id",)),
        Column("python_module_id", _INT, "instance of the nn.Module", ("Python module id",)),
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
        Column("category", _NAME, "`ac2g` (launch to work) or `fwdbwd` (forward to backward)"),
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

OTHER_EVENTS = Table(
    "other_events",
    "One row per event that has no place in the tables above: counters, unknown phases, no readable time.",
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
    OTHER_EVENTS,
)

DETAIL_TABLES_BY_CATEGORY: dict[str, tuple[Table, ...]] = {
    "cpu_op": (HOST_OPS, COLLECTIVES),
    "user_annotation": (HOST_OPS,),
    "cuda_runtime": (HOST_CALLS,),
    "cuda_driver": (HOST_CALLS,),
    "mtia_runtime": (HOST_CALLS,),
    "glow_runtime": (HOST_CALLS,),
    "xpu_runtime": (HOST_CALLS,),
    "xpu_driver": (HOST_CALLS,),
    "privateuse1_runtime": (HOST_CALLS,),
    "privateuse1_driver": (HOST_CALLS,),
    "kernel": (DEVICE_WORK, COLLECTIVES),
    "gpu_memcpy": (DEVICE_WORK, COLLECTIVES),
    "gpu_memset": (DEVICE_WORK,),
    "mtia_ccp_events": (DEVICE_WORK,),
    "hpu_op": (DEVICE_WORK,),
    "collective_comm": (DEVICE_WORK, COLLECTIVES),
    "cuda_sync": (SYNCS,),
    "cuda_event": (SYNCS,),
    "xpu_sync": (SYNCS,),
    "python_function": (PYTHON_FUNCTIONS,),
    "cpu_instant_event": (MEMORY,),
}
"""Which tables hold the arguments of a category; the arguments of any other go to `extra_args`.

The last table of two holds only the rows that have its first column.
"""

# --- Execution Trace --------------------------------------------------------------------------------

ET_NODES = Table(
    "nodes",
    "One row per operator node, in the order of ids (which is the order of their starts).",
    (
        _NODE_ID,
        Column("name", _NAME, "the operator's name"),
        Column("parent_id", _INT, "the node around it (`ctrl_deps`, once `parent`); null for roots"),
        Column("rf_id", _INT, "record-function id; equals Kineto's `Record function id`"),
        Column("fw_parent", _INT, "top of the forward thread's stack at that moment; 0: none"),
        Column("seq_id", _INT, "autograd's sequence number; -1: none"),
        Column("scope", _INT, "RecordScope: 0 function, 1 backward function, 7 user scope"),
        Column("tid", _INT, "logical thread (1, 2, ...)"),
        Column("fw_tid", _INT, "logical thread of the forward op; 0: none"),
        Column("op_schema", _NAME, "the operator's schema"),
        Column("kernel_backend", _NAME, "`triton` on generated kernels"),
        Column("kernel_file", _NAME, "source of the generated kernel"),
        Column("is_root", _BOOL, "true for the process's and the threads' own nodes"),
    ),
)

ET_VALUES = Table(
    "values",
    "One row per input or output of a node.",
    (
        _NODE_ID,
        Column("is_output", _BOOL, "true for outputs"),
        Column("position", _INT, "place among the node's inputs or outputs, from 0"),
        Column("type", _NAME, "C++ type, such as `Tensor(float)` or `GenericList[Int]`"),
        Column("value", _JSON, "the value; tensors as tuples, see docs/formats.md"),
        Column("shape", _JSON, "shape"),
        Column("strides", _JSON, "strides in elements; null before schema 1.1.1"),
    ),
)

ET_TENSOR_USES = Table(
    "tensor_uses",
    "One row per tensor in an input or output, those inside lists too.",
    (
        _NODE_ID,
        Column("is_output", _BOOL, "true for outputs"),
        Column("position", _INT, "place among the node's inputs or outputs, from 0"),
        Column("item", _INT, "place inside a list of tensors; null outside of one"),
        Column("tensor", _INT, "the tensor node: its row in `tensors`"),
    ),
)

ET_TENSORS = Table(
    "tensors",
    "One row per tensor node. Addresses are used again, so one tensor_id can be several tensor nodes.",
    (
        Column("tensor", _INT, "the tensor node: its row number"),
        Column("tensor_id", _INT, "address of the tensor, as the trace has it"),
        Column("storage_id", _INT, "address of its storage; 0: unknown (sparse, jagged, symbolic)"),
        Column("storage_offset", _INT, "offset in the storage, in elements"),
        Column("numel", _INT, "number of elements"),
        Column("itemsize_bytes", _INT, "bytes of an element"),
        Column("device", _NAME, "`cpu`, `cuda:0`; empty where the trace has none"),
        Column("dtype", _NAME, "element type, in C++ words"),
        Column("shape", _JSON, "shape"),
        Column("producer", _INT, "the node that made it; null where that was before the trace"),
    ),
)

ET_TENSOR_EDGES = Table(
    "tensor_edges",
    "One row per dependency through data: the consumer reads what the producer wrote.",
    (
        Column("producer", _INT, "node that wrote"),
        Column("consumer", _INT, "node that reads"),
        Column("tensor", _INT, "tensor node that is read"),
        Column(
            "via",
            _NAME,
            "`tensor`: the producer wrote this tensor; `storage`: it wrote the storage through another one",
        ),
    ),
)

ET_COLLECTIVES = Table(
    "collectives",
    "One row per node with collective attributes (`record_param_comms`).",
    (
        _NODE_ID,
        Column("collective_name", _NAME, "allreduce, all_gather, ...", ("collective_name",)),
        Column("dtype", _NAME, "element type", ("dtype",)),
        Column("in_msg_nelems", _INT, "elements of the input", ("in_msg_nelems",)),
        Column("out_msg_nelems", _INT, "elements of the output", ("out_msg_nelems",)),
        Column("in_split_size", _JSON, "elements for each rank", ("in_split_size",)),
        Column("out_split_size", _JSON, "elements from each rank", ("out_split_size",)),
        Column("global_rank_start", _INT, "first rank of the group", ("global_rank_start",)),
        Column("global_rank_stride", _INT, "step between its ranks", ("global_rank_stride",)),
        Column("pg_name", _NAME, "process group", ("pg_name",)),
        Column("pg_desc", _NAME, "the process group's description", ("pg_desc",)),
        Column("pg_size", _INT, "ranks in the process group", ("pg_size",)),
        Column("is_asynchronized_op", _BOOL, "the collective was asynchronous", ("is_asynchronized_op",)),
    ),
)

ET_EXTRA_ATTRS = Table(
    "extra_attrs",
    "One row per attribute of a node that no table above has a column for.",
    (
        _NODE_ID,
        Column("key", _NAME, "its name"),
        Column("type", _NAME, "its type, as the trace has it"),
        Column("value", _TEXT, "its value, as JSON text"),
    ),
)

PROCESS_GROUPS = Table(
    "process_groups",
    "One row per process group, from the Execution Trace or from Kineto's distributedInfo.",
    (
        Column("pg_name", _TEXT, "name"),
        Column("pg_desc", _TEXT, "description"),
        Column("backend_config", _TEXT, "backend for each device type"),
        Column("ranks", _INTS, "global ranks; empty: all"),
        Column("group_size", _INT, "number of ranks"),
    ),
)

# --- Links ------------------------------------------------------------------------------------------

HOST_TREE = Table(
    "host_tree",
    "One row per host event that has a duration: op, annotation, call or Python function.",
    (
        _EVENT_ID,
        Column("parent_event", _INT, "innermost host event around it on its thread; null at the top"),
        Column("op_event", _INT, "innermost op or annotation around it, itself left out; null: none"),
        Column("depth", _INT, "number of host events around it"),
        Column("inclusive_ns", _INT, "its duration, cut where it outlasts its parent by rounding"),
        Column("exclusive_ns", _INT, "inclusive time less that of the events directly inside"),
        Column("op_exclusive_ns", _INT, "ops: inclusive time less that of the ops directly inside; else null"),
    ),
)

HOST_LINKS = Table(
    "host_links",
    "One row per host op or annotation: the Execution Trace node that is the same op.",
    (
        _EVENT_ID,
        Column("node_id", _INT, "the node; null where none was proven"),
        Column("method", _NAME, "`record_function_id` or `external_id`; null without a node"),
        Column("confidence", _FLOAT, "1.0 for ids that names confirm; null without a node"),
        Column("reason", _NAME, "why there is no node; null with one"),
    ),
)

NODE_LINKS = Table(
    "node_links",
    "One row per Execution Trace node: the host event that is the same op.",
    (
        _NODE_ID,
        Column("event_id", _INT, "the host event; null where none was proven"),
        Column("reason", _NAME, "why there is no event; null with one"),
    ),
)

DEVICE_LINKS = Table(
    "device_links",
    "One row per device event: what launched it.",
    (
        _EVENT_ID,
        Column("call_event", _INT, "the host's call with its correlation; null: none in the trace"),
        Column("op_event", _INT, "innermost op around that call, else annotation; null: none"),
        Column("node_id", _INT, "the Execution Trace node of that op, or of the nearest op around that has one"),
        Column("method", _NAME, "`correlation`, `external_id`; null without an op"),
        Column("reason", _NAME, "why there is no op; null with one"),
    ),
)

FORWARD_BACKWARD = Table(
    "forward_backward",
    "One row per backward op whose forward op is known.",
    (
        Column("forward_event", _INT, "the forward op that made the autograd node"),
        Column("backward_event", _INT, "the backward op"),
        Column("sequence_number", _INT, "the sequence number that both carry"),
    ),
)
