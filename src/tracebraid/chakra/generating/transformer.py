"""The training of transformers: sizes, layout of ranks, schedule, and the nodes of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from math import inf

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.chakra.generating.program import LARGEST, Lane, Program, Work, check_nodes, check_ranks
from tracebraid.chakra.generating.workloads import Parallelism, TransformerJob
from tracebraid.chakra.schema import NodeDeps
from tracebraid.errors import ArgumentError
from tracebraid.model.device_peaks import Precision
from tracebraid.model.pipeline import passes_of_stage
from tracebraid.model.quantities import NS_PER_S

ELEMENT_BYTES = {
    Precision.FP64: 8,
    Precision.FP32: 4,
    Precision.TF32: 4,
    Precision.FP16: 2,
    Precision.BF16: 2,
    Precision.FP8: 1,
}
"""Bytes of an element; TF32 is stored as fp32."""

_ADAM_BYTES = 24
"""Read and written for each parameter in fp32: weight and two moments."""
_ADAM_OPS = 12
"""For each parameter: 3 and 4 for the moments, 5 for the step."""


class Part(Struct, frozen=True):
    """Weights and work of one part of the model on a rank, in a forward pass of one micro-batch.

    Args:
        dense: parameters that all replicas have alike.
        experts: parameters of experts.
        num_ops: floating-point operations.
        elements: read and written at least.
    """

    dense: int
    experts: int
    num_ops: int
    elements: int


class Sizes(Struct, frozen=True):
    """The parts of a model on a rank, and what its ranks exchange.

    Args:
        embedding: the first layer of the first stage.
        attention: of each layer.
        feed_forward: of each layer; of its experts those of a rank.
        router: chooses experts; None: there are none.
        output: the last layer of the last stage.
        activation_bytes: of a micro-batch between two layers.
        routed_bytes: of a micro-batch's tokens, each as often as it has experts.
        element_bytes: of an element.
    """

    embedding: Part
    attention: Part
    feed_forward: Part
    router: Part | None
    output: Part
    activation_bytes: int
    routed_bytes: int
    element_bytes: int


def part_sizes(job: TransformerJob) -> Sizes:
    """The sizes on each rank."""
    model, t = job.model, job.parallelism.tensor
    h, f, vocab, s = model.hidden, model.ffn_size, model.vocab, job.training.sequence
    tokens = s * job.training.sequences
    element_bytes = ELEMENT_BYTES[job.accelerator.precision]
    in_matrices = tokens * (2 * h + 4 * h // t) + 4 * h * h // t
    attention = Part(
        dense=4 * h * h // t + h,
        experts=0,
        num_ops=(8 * tokens * h * h + 4 * tokens * s * h) // t,
        elements=in_matrices + 4 * tokens * h // t,
    )
    router = None
    local, routed = 1, tokens
    if model.experts:
        local, routed = model.experts // job.parallelism.expert, tokens * model.top_k
        router = Part(
            dense=h * model.experts,
            experts=0,
            num_ops=2 * tokens * h * model.experts,
            elements=tokens * (h + model.experts) + h * model.experts,
        )
    weights = 2 * local * h * f // t
    feed_forward = Part(
        dense=h if model.experts else weights + h,
        experts=weights if model.experts else 0,
        num_ops=4 * routed * h * f // t,
        elements=weights + routed * (2 * h + 2 * f // t),
    )
    return Sizes(
        embedding=Part(vocab * h // t, 0, tokens * h, 2 * tokens * h),
        attention=attention,
        feed_forward=feed_forward,
        router=router,
        output=Part(
            dense=vocab * h // t + h,
            experts=0,
            num_ops=2 * tokens * h * vocab // t,
            elements=tokens * (h + vocab // t) + vocab * h // t,
        ),
        activation_bytes=tokens * h * element_bytes,
        routed_bytes=tokens * model.top_k * h * element_bytes,
        element_bytes=element_bytes,
    )


def work_of(job: TransformerJob, part: Part, passes: int = 1) -> Work:
    """The time of a part: that of its operations or of its bytes, whichever is longer."""
    moved = part.elements * ELEMENT_BYTES[job.accelerator.precision] * passes
    return _timed(job, part.num_ops * passes, moved)


def optimizer_work(job: TransformerJob, parameters: int) -> Work:
    """Adam's step on a number of parameters of a rank."""
    element_bytes = ELEMENT_BYTES[job.accelerator.precision]
    return _timed(job, _ADAM_OPS * parameters, (_ADAM_BYTES + 2 * element_bytes) * parameters)


def _timed(job: TransformerJob, num_ops: int, moved_bytes: int) -> Work:
    device = job.accelerator
    seconds = max(num_ops / device.flops_per_s, moved_bytes / device.bytes_per_s) / device.efficiency
    lasts_ns = seconds * NS_PER_S
    if not lasts_ns < LARGEST:
        raise ArgumentError("the duration of a layer exceeds 64 bits in ns: give smaller sizes")
    return Work(round(lasts_ns), num_ops, moved_bytes)


def check_transformer(job: TransformerJob) -> None:
    """Reject what makes no sense."""
    for name, value in _counts(job):
        if value < 1:
            raise ArgumentError(f"{name} is {value:,}: give 1 or more")
        if value > LARGEST:
            raise ArgumentError(f"{name} exceeds 64 bits: give less")
    if job.ranks < 2:
        raise ArgumentError("the degrees of parallelism give a single rank: two or more are needed")
    check_ranks(job.ranks)
    for degree, divided in _divisions(job):
        (name, by), (what, count) = degree, divided
        if count % by:
            raise ArgumentError(
                f"{name} of {by:,} does not divide the {count:,} {what}: give a divisor of {count:,}"
            )
    layers = job.model.layers // job.parallelism.pipeline
    check_nodes(layers * job.training.micro_batches * job.training.steps)
    device = job.accelerator
    if not (0 < device.flops_per_s < inf and 0 < device.bytes_per_s < inf and 0 < device.efficiency <= 1):
        raise ArgumentError(
            "an accelerator needs operations and bytes per second above 0, and an efficiency up to 1"
        )
    if device.precision not in ELEMENT_BYTES:
        known = ", ".join(precision.value for precision in ELEMENT_BYTES)
        raise ArgumentError(
            f"transformers cannot be trained in {device.precision.value}: give one of {known}"
        )
    _check_experts(job)


def _check_experts(job: TransformerJob) -> None:
    experts, top_k = job.model.experts, job.model.top_k
    if experts > LARGEST:
        raise ArgumentError("the number of experts exceeds 64 bits: give fewer")
    if experts < 0:
        raise ArgumentError(f"{experts} is not a valid number of experts: give 0 for none")
    if experts and not 1 <= top_k <= experts:
        raise ArgumentError(f"each token goes to {top_k} of {experts} experts: give 1 to {experts}")
    if not experts and job.parallelism.expert > 1:
        raise ArgumentError(
            f"expert parallelism of {job.parallelism.expert} divides experts, and the model has none: give experts"
        )


def _counts(job: TransformerJob) -> Iterator[tuple[str, int]]:
    model, degrees, training = job.model, job.parallelism, job.training
    yield from (
        ("layers", model.layers),
        ("hidden", model.hidden),
        ("heads", model.heads),
        ("vocab", model.vocab),
    )
    yield "the inner size of the feed-forward network", model.ffn_size
    yield from (("data", degrees.data), ("tensor", degrees.tensor))
    yield from (("pipeline", degrees.pipeline), ("expert", degrees.expert))
    yield from (("sequence", training.sequence), ("sequences of a micro-batch", training.sequences))
    yield from (("micro-batches", training.micro_batches), ("steps", training.steps))
    yield "bytes of a bucket", training.bucket_bytes


_Named = tuple[str, int]


def _divisions(job: TransformerJob) -> Iterator[tuple[_Named, _Named]]:
    model, degrees = job.model, job.parallelism
    yield ("heads", model.heads), ("elements of hidden", model.hidden)
    tensor = ("tensor parallelism", degrees.tensor)
    yield tensor, ("heads", model.heads)
    yield tensor, ("inner elements of the feed-forward network", model.ffn_size)
    yield tensor, ("tokens of the vocabulary", model.vocab)
    yield ("pipeline parallelism", degrees.pipeline), ("layers", model.layers)
    if model.experts > 0:
        yield ("expert parallelism", degrees.expert), ("experts", model.experts)


class Role(Enum):
    """Purpose of a process group."""

    TENSOR = "tensor"
    """They have the parts of each matrix."""
    EXPERT = "expert"
    """They have the parts of the experts, and exchange tokens."""
    DATA = "data"
    """They have the same weights outside experts."""
    EXPERT_DATA = "expert_data"
    """They have the same experts; without expert parallelism those of `DATA`."""


class Coordinates(Struct, frozen=True):
    """Position of a rank in the parallel layout.

    Args:
        tensor: which part of each matrix.
        expert: which part of the experts.
        data: which replica.
        pipeline: which stage.
    """

    tensor: int
    expert: int
    data: int
    pipeline: int


def coordinates_of(parallelism: Parallelism, rank: int) -> Coordinates:
    """Position of a rank in the parallel layout."""
    rest, tensor = divmod(rank, parallelism.tensor)
    rest, expert = divmod(rest, parallelism.expert)
    pipeline, data = divmod(rest, parallelism.data)
    return Coordinates(tensor, expert, data, pipeline)


def size_of(parallelism: Parallelism, role: Role) -> int:
    """Ranks of a group."""
    return {
        Role.TENSOR: parallelism.tensor,
        Role.EXPERT: parallelism.expert,
        Role.DATA: parallelism.data * parallelism.expert,
        Role.EXPERT_DATA: parallelism.data,
    }[role]


def members_of(parallelism: Parallelism, role: Role, rank: int) -> tuple[int, ...]:
    """The ranks of the group of a rank, ascending."""
    at = coordinates_of(parallelism, rank)
    tensor_stride, expert_stride = 1, parallelism.tensor
    data_stride = expert_stride * parallelism.expert
    if role is Role.TENSOR:
        first, stride = rank - at.tensor * tensor_stride, tensor_stride
    elif role is Role.EXPERT:
        first, stride = rank - at.expert * expert_stride, expert_stride
    elif role is Role.EXPERT_DATA:
        first, stride = rank - at.data * data_stride, data_stride
    else:
        first, stride = rank - at.data * data_stride - at.expert * expert_stride, expert_stride
    return tuple(range(first, first + stride * size_of(parallelism, role), stride))


def peer_of(parallelism: Parallelism, rank: int, stages: int) -> int:
    """Return the rank with the same coordinates a number of stages later."""
    return rank + stages * (parallelism.ranks // parallelism.pipeline)


def groups_of(parallelism: Parallelism) -> Iterator[tuple[Role, tuple[int, ...]]]:
    """The groups of two ranks or more, by role and first member; one that exists already is not there again."""
    for role in Role:
        if size_of(parallelism, role) < 2 or (role is Role.EXPERT_DATA and parallelism.expert == 1):
            continue
        for rank in range(parallelism.ranks):
            members = members_of(parallelism, role, rank)
            if members[0] == rank:
                yield role, members


class UnitKind(Enum):
    """Kind of a unit."""

    EMBEDDING = "embedding"
    LAYER = "layer"
    OUTPUT = "output"


class Unit(Struct, frozen=True):
    """A part of the model that is computed as a whole.

    Args:
        kind: its kind.
        layer: its number; None: it is no layer.
        parts: its parts, in the order of the forward pass.
    """

    kind: UnitKind
    layer: int | None
    parts: tuple[Part, ...]

    @property
    def is_layer(self) -> bool:
        """Return whether it is one of the layers."""
        return self.layer is not None

    @property
    def name(self) -> str:
        """Format as in names of nodes."""
        return self.kind.value if self.layer is None else f"{self.kind.value} {self.layer}"

    @property
    def module(self) -> str:
        """The path of its module."""
        return self.kind.value if self.layer is None else f"layers.{self.layer}"

    @property
    def dense(self) -> int:
        """Its parameters outside experts."""
        return sum(part.dense for part in self.parts)

    @property
    def experts(self) -> int:
        """Its parameters in experts."""
        return sum(part.experts for part in self.parts)


def units_of_stage(job: TransformerJob, sizes: Sizes, stage: int) -> tuple[Unit, ...]:
    """The units of a stage, in the order of the forward pass: its share of the layers, and the ends of the model."""
    stages = job.parallelism.pipeline
    count = job.model.layers // stages
    router = () if sizes.router is None else (sizes.router,)
    parts = (sizes.attention, *router, sizes.feed_forward)
    units = [Unit(UnitKind.LAYER, stage * count + number, parts) for number in range(count)]
    if stage == 0:
        units.insert(0, Unit(UnitKind.EMBEDDING, None, (sizes.embedding,)))
    if stage == stages - 1:
        units.append(Unit(UnitKind.OUTPUT, None, (sizes.output,)))
    return tuple(units)


class Replicas(Struct, frozen=True):
    """The exchange between replicas.

    Args:
        job: the training job.
        program: gets the nodes.
        reduces: whether gradients are reduced in this pass, if they are not sharded.
    """

    job: TransformerJob
    program: Program
    reduces: bool = True
    _pending: dict[Role, int] = field(default_factory=dict)
    """Bytes of the bucket that is being filled."""

    def of_pass(self, is_last: bool) -> Replicas:
        """Program of the backward pass of a micro-batch: only the last of a step reduces gradients."""
        return replace(self, reduces=is_last)

    def reduce(self, name: str, part: Part) -> None:
        """Take the gradients of a part that was computed; reduce the bucket that they fill."""
        if self.job.parallelism.fully_sharded or not self.reduces:
            return
        for role, parameters in self._shared(part.dense, part.experts):
            self._pending[role] = self._pending.get(role, 0) + parameters * self._element_bytes()
            if self._pending[role] >= self.job.training.bucket_bytes:
                self._flush(name, role)

    def reduce_rest(self, name: str) -> None:
        """Reduce the buckets that are not full: the pass is over."""
        for role in list(self._pending):
            self._flush(name, role)

    def gather(self, name: str, unit: Unit) -> tuple[int, ...]:
        """Gather the weights of a unit if they are sharded."""
        rows = []
        for role, shard_bytes in self._shards(unit):
            label = f"{name}/{unit.name}/{role.value} all-gather"
            rows.append(
                self.program.collective(
                    label,
                    CollectiveCommType.ALL_GATHER,
                    shard_bytes,
                    role.value,
                    self.program.last(Lane.COMPUTE),
                )
            )
        return tuple(rows)

    def scatter(self, name: str, unit: Unit) -> None:
        """Sum the gradients of a unit, keeping a shard if they are sharded."""
        for role, shard_bytes in self._shards(unit):
            label = f"{name}/{unit.name}/{role.value} reduce-scatter"
            whole_bytes = shard_bytes * size_of(self.job.parallelism, role)
            after = self.program.last(Lane.COMPUTE)
            self.program.collective(label, CollectiveCommType.REDUCE_SCATTER, whole_bytes, role.value, after)

    def parameters(self, units: tuple[Unit, ...]) -> int:
        """Weights that the optimizer of a rank updates."""
        total = sum(unit.dense + unit.experts for unit in units)
        if not self.job.parallelism.fully_sharded:
            return total
        shared = [pair for unit in units for pair in self._shared(unit.dense, unit.experts)]
        kept = sum(self._shard(parameters, role) for role, parameters in shared)
        return total - sum(parameters for _, parameters in shared) + kept

    def _flush(self, name: str, role: Role) -> None:
        size_bytes = self._pending.pop(role)
        after = self.program.last(Lane.COMPUTE)
        label = f"{name}/{role.value} all-reduce"
        self.program.collective(label, CollectiveCommType.ALL_REDUCE, size_bytes, role.value, after)

    def _shards(self, unit: Unit) -> list[tuple[Role, int]]:
        """The groups that share the weights of a unit, and the bytes of each rank."""
        if not self.job.parallelism.fully_sharded:
            return []
        return [
            (role, self._shard(parameters, role) * self._element_bytes())
            for role, parameters in self._shared(unit.dense, unit.experts)
        ]

    def _shared(self, dense: int, experts: int) -> list[tuple[Role, int]]:
        """The groups that have these parameters in common, and how many."""
        if self.job.parallelism.expert == 1:
            dense, experts = dense + experts, 0
        both = ((Role.DATA, dense), (Role.EXPERT_DATA, experts))
        return [(role, count) for role, count in both if count and size_of(self.job.parallelism, role) > 1]

    def _shard(self, parameters: int, role: Role) -> int:
        """Padded, so that all ranks have as much."""
        return -(-parameters // size_of(self.job.parallelism, role))

    def _element_bytes(self) -> int:
        return ELEMENT_BYTES[self.job.accelerator.precision]


LOSS_VALUES = ("maximum", "target", "sum")
"""What the ranks of a tensor parallel group exchange of each token's logits: the largest, that of the target, and the
sum of exponentials."""
LOSS_VALUE_BYTES = 4
"""They are fp32."""
_FORWARD = 1
_BACKWARD = 2
"""Cost of the backward pass relative to forward: gradients of inputs and of weights."""


class Pass(Struct):
    """A micro-batch on its way through a stage.

    Args:
        job: the training job.
        sizes: of its parts.
        program: gets the nodes.
        name: how the names of its nodes begin.
        ready: rows of nodes that the next computation waits for, beside the computation before it.
    """

    job: TransformerJob
    sizes: Sizes
    program: Program
    name: str
    ready: tuple[int, ...] = ()

    def done(self) -> tuple[int, ...]:
        """The rows after which all so far is done."""
        return (*self.program.last(Lane.COMPUTE), *self.ready)

    def compute(self, name: str, part: Part, passes: int, module: str) -> None:
        """The computation of a part."""
        work = work_of(self.job, part, passes)
        self.program.compute(f"{self.name}/{name}", work, self.ready, module)
        self.ready = ()

    def sum_over_tensor(self, name: str, size_bytes: int) -> None:
        """Add the all-reduce of tensor parallelism, if any."""
        self._collective(name, CollectiveCommType.ALL_REDUCE, size_bytes, Role.TENSOR)

    def exchange_tokens(self, name: str) -> None:
        """Add the all-to-all of expert parallelism, if any."""
        self._collective(name, CollectiveCommType.ALL_TO_ALL, self.sizes.routed_bytes, Role.EXPERT)

    def _collective(self, name: str, type: CollectiveCommType, size_bytes: int, role: Role) -> None:
        if size_of(self.job.parallelism, role) > 1:
            row = self.program.collective(f"{self.name}/{name}", type, size_bytes, role.value, self.done())
            self.ready = (row,)


def forward(at: Pass, unit: Unit, name: str) -> None:
    """The forward pass through a unit."""
    sizes, module = at.sizes, unit.module
    if unit.kind is UnitKind.EMBEDDING:
        at.compute(name, sizes.embedding, _FORWARD, module)
        at.sum_over_tensor(f"{name}/all-reduce", sizes.activation_bytes)
    elif unit.kind is UnitKind.OUTPUT:
        at.compute(name, sizes.output, _FORWARD, module)
        tokens = at.job.training.sequence * at.job.training.sequences
        for value in LOSS_VALUES:
            at.sum_over_tensor(f"{name}/loss {value}/all-reduce", LOSS_VALUE_BYTES * tokens)
    else:
        at.compute(f"{name}/attention", sizes.attention, _FORWARD, f"{module}.attention")
        at.sum_over_tensor(f"{name}/attention/all-reduce", sizes.activation_bytes)
        if sizes.router is not None:
            at.compute(f"{name}/router", sizes.router, _FORWARD, f"{module}.router")
            at.exchange_tokens(f"{name}/dispatch")
        at.compute(f"{name}/feed-forward", sizes.feed_forward, _FORWARD, f"{module}.feed_forward")
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/combine")
        at.sum_over_tensor(f"{name}/feed-forward/all-reduce", sizes.activation_bytes)


def backward(at: Pass, unit: Unit, name: str, replicas: Replicas) -> None:
    """The backward pass through a unit; gradients go to the replicas as they are computed."""
    sizes, module = at.sizes, unit.module
    reduced = f"{at.name}/backward"
    if unit.kind is UnitKind.EMBEDDING:
        at.compute(name, sizes.embedding, _FORWARD, module)
        replicas.reduce(reduced, sizes.embedding)
    elif unit.kind is UnitKind.OUTPUT:
        at.compute(name, sizes.output, _BACKWARD, module)
        at.sum_over_tensor(f"{name}/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.output)
    else:
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/combine")
        at.compute(f"{name}/feed-forward", sizes.feed_forward, _BACKWARD, f"{module}.feed_forward")
        if sizes.router is not None:
            at.exchange_tokens(f"{name}/dispatch")
        at.sum_over_tensor(f"{name}/feed-forward/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.feed_forward)
        if sizes.router is not None:
            at.compute(f"{name}/router", sizes.router, _BACKWARD, f"{module}.router")
            replicas.reduce(reduced, sizes.router)
        at.compute(f"{name}/attention", sizes.attention, _BACKWARD, f"{module}.attention")
        at.sum_over_tensor(f"{name}/attention/all-reduce", sizes.activation_bytes)
        replicas.reduce(reduced, sizes.attention)


def stage_program(job: TransformerJob, stage: int) -> Program:
    """The nodes of each rank of a stage."""
    program, sizes = Program(), part_sizes(job)
    units = units_of_stage(job, sizes, stage)
    replicas = Replicas(job, program)
    for step in range(job.training.steps):
        program.step = str(step)
        loss: tuple[int, ...] = ()
        for is_forward, micro_batch in passes_of_stage(
            stage, job.parallelism.pipeline, job.training.micro_batches
        ):
            at = Pass(job, sizes, program, f"step {step}/micro-batch {micro_batch}")
            messages = _Messages(at, stage, step, micro_batch)
            if is_forward:
                _forward(at, units, replicas, messages)
                loss = at.ready
            else:
                # Of the last stage: the backward pass of a micro-batch comes behind its forward pass.
                at.ready = loss if stage == job.parallelism.pipeline - 1 else ()
                is_last = micro_batch == job.training.micro_batches - 1
                _backward(at, units, replicas.of_pass(is_last), messages)
        work = optimizer_work(job, replicas.parameters(units))
        program.compute(f"step {step}/optimizer", work, program.last(Lane.COMMUNICATION), "optimizer")
    return program


class _Messages:
    """The sends and receives of a pass: activations go to the next stage, gradients to the one before."""

    def __init__(self, at: Pass, stage: int, step: int, micro_batch: int) -> None:
        self._at, self._stage = at, stage
        # Activations of a micro-batch have an even tag, gradients an odd one.
        self._tag = 2 * (step * at.job.training.micro_batches + micro_batch)

    def receive_activations(self) -> None:
        """For every stage except the first."""
        if self._stage > 0:
            self._receive("forward/receive activations", -1, self._tag, Lane.FROM_PREVIOUS)

    def send_activations(self) -> None:
        """For every stage except the last."""
        if self._stage < self._at.job.parallelism.pipeline - 1:
            self._send("forward/send activations", 1, self._tag)

    def receive_gradients(self) -> None:
        """For every stage except the last."""
        if self._stage < self._at.job.parallelism.pipeline - 1:
            self._receive("backward/receive gradients", 1, self._tag + 1, Lane.FROM_NEXT)

    def send_gradients(self) -> None:
        """For every stage except the first."""
        if self._stage > 0:
            self._send("backward/send gradients", -1, self._tag + 1)

    def _receive(self, name: str, stages: int, tag: int, lane: Lane) -> None:
        message = (stages, tag, self._at.sizes.activation_bytes)
        row = self._at.program.receive(f"{self._at.name}/{name}", message, lane)
        self._at.ready = (*self._at.ready, row)

    def _send(self, name: str, stages: int, tag: int) -> None:
        message = (stages, tag, self._at.sizes.activation_bytes)
        self._at.program.send(f"{self._at.name}/{name}", message, self._at.done())


def _forward(at: Pass, units: tuple[Unit, ...], replicas: Replicas, messages: _Messages) -> None:
    messages.receive_activations()
    for unit, gathered in _prefetched(at, units, replicas, "forward"):
        at.ready = (*at.ready, *gathered)
        forward(at, unit, f"forward/{unit.name}")
    messages.send_activations()


def _backward(at: Pass, units: tuple[Unit, ...], replicas: Replicas, messages: _Messages) -> None:
    messages.receive_gradients()
    for unit, gathered in _prefetched(at, units[::-1], replicas, "backward"):
        at.ready = (*at.ready, *gathered)
        if at.job.training.recompute and unit.is_layer:
            forward(at, unit, f"backward/{unit.name}/recompute")
        backward(at, unit, f"backward/{unit.name}", replicas)
        replicas.scatter(f"{at.name}/backward", unit)
    messages.send_gradients()
    replicas.reduce_rest(f"{at.name}/backward")


def _prefetched(
    at: Pass, units: tuple[Unit, ...], replicas: Replicas, name: str
) -> Iterator[tuple[Unit, tuple[int, ...]]]:
    """Each unit with the nodes that gather its weights, issued while the unit before it computes (FSDP's prefetch)."""
    ahead = replicas.gather(f"{at.name}/{name}", units[0])
    for position, unit in enumerate(units):
        gathered = ahead
        if position + 1 < len(units):
            ahead = replicas.gather(f"{at.name}/{name}", units[position + 1])
        yield unit, gathered


def numbered_groups(parallelism: Parallelism) -> dict[tuple[Role, int], tuple[str, tuple[int, ...]]]:
    """Name and ranks of the group by role and first member; a group of all ranks needs no name."""
    found: dict[tuple[Role, int], tuple[str, tuple[int, ...]]] = {}
    for role, members in groups_of(parallelism):
        if len(members) < parallelism.ranks:
            found[role, members[0]] = (str(len(found) + 1), members)
    return found


def transformer_ranks(job: TransformerJob) -> Iterator[tuple[pl.DataFrame, NodeDeps]]:
    """Nodes and dependencies of each rank; the ranks of a stage are made from the same program."""
    groups = numbered_groups(job.parallelism)
    stage, nodes, deps = -1, pl.DataFrame(), NodeDeps.none(0)
    for rank in range(job.ranks):
        at = coordinates_of(job.parallelism, rank)
        if at.pipeline != stage:
            stage = at.pipeline
            program = stage_program(job, stage)
            nodes, deps = program.nodes(), program.data_deps()
        names = {
            role: groups[role, first][0]
            for role in Role
            if (role, first := members_of(job.parallelism, role, rank)[0]) in groups
        }
        yield _of_rank(nodes, names, peer_of(job.parallelism, rank, 0), peer_of(job.parallelism, 0, 1)), deps


def _of_rank(nodes: pl.DataFrame, names: Mapping[Role, str], rank: int, ranks_of_stage: int) -> pl.DataFrame:
    role = pl.col("pg_name")
    named = {item.value: names.get(item) for item in Role}
    purpose = pl.format('{{"parallelism":"{}"}}', role.fill_null("pipeline"))
    communicates = pl.col("comm_size").is_not_null()
    return nodes.with_columns(
        attributes=pl.when(communicates).then(purpose).cast(pl.Categorical),
        pg_name=role.replace_strict(named, default=None, return_dtype=pl.String),
        comm_src=rank + pl.col("comm_src") * ranks_of_stage,
        comm_dst=rank + pl.col("comm_dst") * ranks_of_stage,
    )
