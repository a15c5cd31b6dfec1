"""`LintFinding`, `RankLint` and `ChakraCheck`: what a check of `.et` files found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from tracebraid.model.finding_code import Severity


class Simulator(Enum):
    """A simulator whose own limits are checked as well."""

    ASTRA_SIM = "astra-sim"


class LintCode(str, Enum):
    """Code of a finding: a stable short name, which `--json` prints."""

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
    DURATION_MISSING = "duration-missing"
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
    ATTRIBUTE_TYPE = "attribute-type"
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
    RENDEZVOUS = "rendezvous"
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


class LintRule(Struct, frozen=True):
    """Meaning of a code.

    Args:
        severity: how much it matters.
        template: what was found, with fields that a finding fills from its details.
        advice: what to do.
        meaning: what follows from it, for the documents.
    """

    severity: Severity
    template: str
    advice: str
    meaning: str


_C = LintCode
_ERROR = Severity.ERROR
_WARNING = Severity.WARNING
_NOTE = Severity.NOTE
_NODES_SHOWN = 8
"""Maximum named nodes in a line."""
_REWRITE = "Write the file anew with the program that made it"
_IDS = "Give each node of a file an id of its own, from 0 up"

LINT_RULES: dict[LintCode, LintRule] = {
    _C.FILE_UNREADABLE: LintRule(
        _ERROR,
        "the file cannot be read: {problem}",
        _REWRITE,
        "The file is not there, is cut, or is no `.et` file. Its rank is left out of all further checks.",
    ),
    _C.FILE_DAMAGED: LintRule(
        _ERROR,
        "{problem}",
        _REWRITE,
        "Something in the file is lost. The rest was read and is checked; simulators stop there, or run what is left.",
    ),
    _C.FILE_NOTED: LintRule(
        _WARNING,
        "{problem}",
        "See whether the simulator reads the file as it is",
        "The file is whole, and something in it is not as Chakra's own files have it.",
    ),
    _C.RANK_TWICE: LintRule(
        _ERROR,
        "rank {rank} has {files:,} files; the first is checked",
        "Name the files of one job: PREFIX.0.et, PREFIX.1.et and so on",
        "A simulator is given one prefix; files of several jobs are in the folder.",
    ),
    _C.RANKS_MISSING: LintRule(
        _ERROR,
        "the files are of ranks {shown}; a simulator opens 0 to {last}, and {missing} are not there",
        "Number the ranks anew without gaps, or export with --missing replicate or --missing shrink",
        "Simulators open the files of ranks 0 to N-1.",
    ),
    _C.NO_NODES: LintRule(
        _ERROR,
        "the file holds no node",
        _REWRITE,
        "ASTRA-sim stops where a rank has nothing that it can begin with.",
    ),
    _C.NO_START_NODE: LintRule(
        _ERROR,
        "each of the {nodes:,} nodes waits for another, so nothing can begin",
        "Remove the dependencies of the node that comes first",
        "ASTRA-sim stops where each node has a dependency.",
    ),
    _C.ID_DUPLICATE: LintRule(
        _ERROR,
        "nodes have the id of another node; dependencies on it are taken as on the first",
        _IDS,
        "A dependency names a node by its id, so it has to be unique in the file.",
    ),
    _C.ID_NEGATIVE: LintRule(
        _ERROR, "ids of nodes are negative or above 2^63 - 1", _IDS, "Simulators count ids from 0 up."
    ),
    _C.TYPE_UNKNOWN: LintRule(
        _ERROR,
        "the type {type} is none that can be run",
        "Use one of Chakra's NodeType, other than INVALID_NODE",
        "ASTRA-sim stops at a type that it does not know, and skips INVALID_NODE.",
    ),
    _C.DEPENDENCY_DANGLING: LintRule(
        _ERROR,
        "it waits for node {missing}, which the file does not hold",
        "Remove the dependency, or write the node that it names",
        "ASTRA-sim stops at such a file, or never runs the node.",
    ),
    _C.DEPENDENCY_SELF: LintRule(
        _ERROR,
        "the node waits for itself",
        "Remove the dependency",
        "The node, and all that wait for it, never run. Simulators do not say so.",
    ),
    _C.DEPENDENCY_CYCLE: LintRule(
        _ERROR,
        "nodes wait for each other in a circle: {cycle}; {nodes:,} nodes never run",
        "Remove one of these dependencies",
        "The nodes of the circle, and all that wait for them, never run. Simulators do not say so.",
    ),
    _C.DURATION_NEGATIVE: LintRule(
        _ERROR,
        "the duration is {duration} us",
        "Give it the time that it takes, or 0",
        "Simulators read durations without a sign: a negative one is some 584,000 years.",
    ),
    _C.DURATION_MISSING: LintRule(
        _WARNING,
        "work has operations (num_ops) and no duration",
        'Run it with a system file that has "roofline-enabled": 1: `tracebraid chakra run --system FILE`',
        "Without a roofline such work takes no time.",
    ),
    _C.COMMUNICATION_ON_HOST: LintRule(
        _ERROR,
        "a communication is marked as an op of the host (is_cpu_op)",
        "Set is_cpu_op to false",
        "ASTRA-sim stops at a communication of the host.",
    ),
    _C.COLLECTIVE_TYPE_MISSING: LintRule(
        _ERROR,
        "the collective has no comm_type",
        "Give it the attribute comm_type (int64_val), one of Chakra's CollectiveCommType",
        "A simulator does not know what is communicated.",
    ),
    _C.COLLECTIVE_TYPE_UNKNOWN: LintRule(
        _ERROR,
        "the comm_type {type} is none of Chakra's CollectiveCommType",
        "Give it one of Chakra's CollectiveCommType",
        "Simulators stop at a collective that they do not know.",
    ),
    _C.SIZE_MISSING: LintRule(
        _ERROR,
        "the communication has no comm_size",
        "Give it the attribute comm_size (int64_val) in bytes",
        "Simulators stop where there is no size. Only a barrier needs none.",
    ),
    _C.SIZE_NEGATIVE: LintRule(
        _ERROR,
        "the comm_size is {size} bytes",
        "Give it the size in bytes",
        "Simulators read sizes without a sign.",
    ),
    _C.PEER_MISSING: LintRule(
        _ERROR,
        "it does not say {which}",
        "Give a send the attribute comm_dst, and a receive comm_src",
        "A send needs its receiver, a receive its sender.",
    ),
    _C.PEER_ABSENT: LintRule(
        _ERROR,
        "its peer is rank {peer}, which has no file",
        "Number the ranks anew without gaps, in comm_src and comm_dst too",
        "The message never arrives.",
    ),
    _C.PEER_IS_SELF: LintRule(
        _WARNING,
        "the peer of a send or receive is its own rank",
        "Make it a COMP_NODE with the time that the copy takes",
        "Networks have no link from a rank to itself.",
    ),
    _C.ISSUED_FOR_ANOTHER: LintRule(
        _ERROR,
        "its {attribute} is rank {named}, but rank {rank} issues it",
        "Number comm_src of sends and comm_dst of receives as the file, or leave them out",
        "ASTRA-sim stops at a send that is not its own rank's, and at such a receive.",
    ),
    _C.ORDER_BY_TIME: LintRule(
        _WARNING,
        "no dependency says which of these collectives comes first",
        "Let each collective of a rank wait for the one before it",
        "One rank may issue them in another order than its peers, which is a deadlock. Whether it does depends on "
        "times, and so on the network. The order is checked as it is with the durations in the files and a network "
        "that takes no time.",
    ),
    _C.ATTRIBUTE_TYPE: LintRule(
        _WARNING,
        "{attribute} is {type} and not {expected}: Chakra's own feeder reads it as 0",
        "Write it with the expected type; `tracebraid chakra json` makes JSON of a file, and a file of JSON",
        "Chakra's feeder takes each attribute from one member of the message, and simulators built on it see 0, or no "
        "text, where another is set. ASTRA-sim since 2025 takes any integer.",
    ),
    _C.GROUP_NOT_A_NUMBER: LintRule(
        _ERROR,
        "the process group {group!r} is no number above or equal to 0 that fits 32 bits",
        "Number the groups anew, in pg_name and in the comm-group file",
        "ASTRA-sim reads names of groups as int32 numbers.",
    ),
    _C.GROUPS_NOT_GIVEN: LintRule(
        _WARNING,
        "process groups are used ({groups}), and there is no comm-group file; the members of each are taken to be the "
        "ranks that use it",
        "Name the comm-group file with --comm-group",
        "A simulator has to be told the members of each group.",
    ),
    _C.GROUP_UNKNOWN: LintRule(
        _ERROR,
        "the process group {group} is not in the comm-group file",
        "Add the group and its ranks to the comm-group file",
        "ASTRA-sim stops at a group that it does not know. 0 and no name stand for all ranks.",
    ),
    _C.GROUP_RANK_ABSENT: LintRule(
        _ERROR,
        "the process group {group} has the ranks {absent}, which have no files",
        "Number the ranks anew in the comm-group file, or export the ranks that are missing",
        "The collectives of the group wait for ever.",
    ),
    _C.GROUP_RANK_TWICE: LintRule(
        _ERROR,
        "the process group {group} names rank {rank} twice",
        "Name each rank once",
        "A rank cannot be twice in a ring.",
    ),
    _C.NOT_IN_GROUP: LintRule(
        _ERROR,
        "rank {rank} communicates in the process group {group}, of which it is no member",
        "Correct pg_name, or add the rank to the group",
        "ASTRA-sim builds a ring that the rank is not in, and goes on with undefined results.",
    ),
    _C.COLLECTIVES_DIFFER: LintRule(
        _ERROR,
        "collective {position:,} of process group {group} is {first} on rank {first_rank} and {other} on rank "
        "{other_rank}",
        "Bring the collectives of all members of a group into the same order",
        "Collectives of a group meet by their order. Another type on a member hangs, or gives wrong times.",
    ),
    _C.SIZES_DIFFER: LintRule(
        _ERROR,
        "collective {position:,} of process group {group}, {type}, has {first:,} bytes on rank {first_rank} and "
        "{other:,} on rank {other_rank}",
        "Give all members the same size: for parts of different sizes, the largest",
        "Messages of ranks do not fit each other, so the simulation hangs.",
    ),
    _C.COLLECTIVES_MISSING: LintRule(
        _ERROR,
        "the members of process group {group} issue different numbers of collectives: {counts}",
        "Export the same steps of all ranks; remove collectives that a member does not take part in",
        "Those that issue more wait for ever.",
    ),
    _C.SEND_WITHOUT_RECEIVE: LintRule(
        _ERROR,
        "rank {src} sends {size:,} bytes with tag {tag} to rank {dst}, which does not receive them",
        "Give both ends the same comm_src, comm_dst, comm_tag and comm_size",
        "ASTRA-sim forgets such a message without a word; other simulators wait.",
    ),
    _C.RECEIVE_WITHOUT_SEND: LintRule(
        _ERROR,
        "rank {dst} waits for {size:,} bytes with tag {tag} from rank {src}, which does not send them",
        "Give both ends the same comm_src, comm_dst, comm_tag and comm_size",
        "The receiver, and all that wait for it, never go on.",
    ),
    _C.DEADLOCK: LintRule(
        _ERROR,
        "nothing can go on: {waits}; {nodes:,} communication nodes of {ranks:,} ranks never end",
        "Bring the collectives of these ranks into the same order, and sends before the receives that wait for them",
        "A simulator hangs, or ends with exit code 0 and without its results.",
    ),
    _C.RENDEZVOUS: LintRule(
        _WARNING,
        "nothing can go on where sends of {size:,} bytes or more wait for their receive: {waits}",
        "Let one of two ranks that send to each other receive first; `tracebraid chakra run --rendezvous BYTES` "
        "simulates it",
        "In ASTRA-sim, and for small messages elsewhere, a send ends whether or not it is received. Large messages of "
        "NCCL and MPI, and ASTRA-sim's rendezvous protocol, wait for the receiver.",
    ),
    _C.ASTRA_SINGLE_RANK: LintRule(
        _WARNING,
        "the job has one rank; ASTRA-sim needs two at least",
        "Export with --missing replicate, or run it with `tracebraid chakra run`",
        "Its networks have two ranks or more.",
    ),
    _C.ASTRA_WORLD_GROUP: LintRule(
        _ERROR,
        "collective {position:,} of all ranks comes after {first:,} collectives on rank {first_rank} and after "
        "{other:,} on rank {other_rank}: ASTRA-sim never ends it",
        "Give the group of all ranks a number of its own, in pg_name and in the comm-group file",
        "ASTRA-sim numbers messages of the group without a name by all collectives that the rank has issued before, "
        "whatever their group, so ranks that issued others of other groups do not meet.",
    ),
    _C.ASTRA_COLLECTIVE: LintRule(
        _WARNING,
        "ASTRA-sim has no {type}",
        "Map it to ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER or BROADCAST: exports with --simulator "
        "astra-sim do",
        "ASTRA-sim stops at it.",
    ),
    _C.ASTRA_SIZE_ZERO: LintRule(
        _WARNING,
        "a communication of 0 bytes never ends on ASTRA-sim",
        "Make it 1 byte, or a COMP_NODE",
        "It makes no message, and waits for one.",
    ),
    _C.ASTRA_TAG_MISSING: LintRule(
        _WARNING,
        "a send or receive has no comm_tag",
        "Give it the attribute comm_tag (int32_val)",
        "ASTRA-sim stops where there is none.",
    ),
    _C.ASTRA_METADATA: LintRule(
        _WARNING,
        "ASTRA-sim does not run a {type}",
        "Remove it",
        "It logs such nodes as critical or stops there; what waits for them begins only when something else ends.",
    ),
    _C.ASTRA_HOST_WORK: LintRule(
        _NOTE,
        "work of the host (is_cpu_op): ASTRA-sim runs one such node at a time",
        "Export with --detail device or --detail merged where threads worked at once",
        "ASTRA-sim has one lane for the host of a rank, whatever the number of its threads, and logs such nodes as "
        "critical.",
    ),
    _C.ASTRA_MANY_READY: LintRule(
        _WARNING,
        "up to {nodes:,} nodes can run at once",
        "Chain the nodes of each stream",
        "ASTRA-sim goes through all ready nodes at each event: its time grows with the square of their number.",
    ),
}


class RankNode(Struct, frozen=True):
    """A node of a rank."""

    rank: int
    node_id: int

    def __str__(self) -> str:
        """A few words for people."""
        return f"rank {self.rank} node {self.node_id}"


class LintFinding(Struct, frozen=True):
    """Fault in `.et` files that a simulator cannot run, or runs incorrectly.

    Args:
        code: what it is.
        path: the file; "" where it is no single file's matter.
        nodes: the first nodes that it is about.
        count: how many times it was found.
        details: values of the fields of its sentence in `lint_rules`.
    """

    code: LintCode
    path: str = ""
    nodes: tuple[RankNode, ...] = ()
    count: int = 1
    details: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        """See `model.finding.Finding`."""
        return hash((self.code, self.path, self.nodes, self.count))

    @property
    def severity(self) -> Severity:
        """Return its severity."""
        return LINT_RULES[self.code].severity

    @property
    def message(self) -> str:
        """Return the sentence for people; programs use the code."""
        return LINT_RULES[self.code].template.format_map(dict(self.details))

    @property
    def advice(self) -> str:
        """Return the advice for people."""
        return LINT_RULES[self.code].advice

    def __str__(self) -> str:
        """One line for people."""
        return self.line()

    def line(self, others: str = "", count: int | None = None) -> str:
        """Return one line for people.

        Args:
            others: the other ranks or files of which the same is true.
            count: how many times it was found in all; None: its own count.
        """
        nodes = [str(node) for node in self.nodes[:_NODES_SHOWN]]
        more = len(self.nodes) - len(nodes)
        location = ", ".join(part for part in (self.path, *nodes) if part)
        location += f" and {more:,} more" if more else ""
        location += f", and {others}" if others else ""
        times = self.count if count is None else count
        counted = f" ({times:,} times)" if times > 1 else ""
        return f"{location + ': ' if location else ''}{self.message}{counted}"


class CheckedChakraRank(Struct, frozen=True):
    """A rank that was checked.

    Args:
        rank: its number.
        path: of its file.
        nodes: how many it has.
        dependencies: how many of them are followed; one that stands in both lists counts twice.
        collectives: collective nodes.
        sends: nodes that send.
        receives: nodes that receive.
    """

    rank: int
    path: str
    nodes: int
    dependencies: int
    collectives: int
    sends: int
    receives: int


class ChakraCheck(Struct, frozen=True):
    """The result of a check of a job's `.et` files.

    Args:
        path: what was checked.
        ranks: those that could be read, ascending.
        findings: what was found, errors first.
    """

    path: str
    ranks: tuple[CheckedChakraRank, ...]
    findings: tuple[LintFinding, ...]

    @property
    def runs(self) -> bool:
        """Return whether there is no error: nothing known keeps a simulator from running it to the end."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)
