"""The tables of an `ExecutionTrace`."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

_INT, _BOOL, _NAME, _JSON, _TEXT, _INTS = Kind.INT, Kind.BOOL, Kind.NAME, Kind.JSON, Kind.TEXT, Kind.INTS

_NODE_ID = Column("node_id", _INT, "the Execution Trace node")

ET_NODES = Table(
    "nodes",
    "One row per operator node, in the order of ids (which is the order of their starts).",
    (
        _NODE_ID,
        Column("name", _NAME, "the operator's name"),
        Column("parent_id", _INT, "the node that encloses it (`ctrl_deps`, once `parent`); null for roots"),
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
        Column("position", _INT, "position among the node's inputs or outputs, from 0"),
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
        Column("position", _INT, "position among the node's inputs or outputs, from 0"),
        Column("item", _INT, "index inside a list of tensors; null outside of one"),
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
    "One row per node with collective attributes: `record_param_comms`, and ops that are given a process group.",
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
        Column(
            "pg_ranks",
            _JSON,
            "global ranks of the process group, where no start and stride give them",
            ("pg_ranks",),
        ),
        Column("pg_backend", _NAME, "backend of the process group: `gloo`, `nccl`, ...", ("pg_backend",)),
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
