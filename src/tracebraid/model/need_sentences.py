"""The sentences for people of what a trace may lack: none of them is compared, searched or cut."""

from __future__ import annotations

from tracebraid.model.questions.analysis import Need

__all__ = ["NEED_SENTENCES"]

NEED_SENTENCES: dict[Need, tuple[str, str]] = {
    Need.EVENTS: (
        "the trace has no event, so there is nothing to judge",
        "Capture again while the program works",
    ),
    Need.SEVERAL_RANKS: (
        "there is one rank only",
        "Give the folder with the traces of all ranks of the job",
    ),
    Need.HOST_OPS: ("no host op is in the trace", "Capture with ProfilerActivity.CPU"),
    Need.DEVICE_WORK: (
        "no work of a device is in the trace",
        "Capture on a machine with an accelerator, with its ProfilerActivity",
    ),
    Need.STEPS: (
        "no annotation marks steps",
        "Call step() of the capture or profiler after each iteration, or name another annotation: --annotation",
    ),
    Need.SHAPES_OF_EITHER: (
        "no shapes were recorded",
        "Capture with record_shapes=True, as `tracebraid capture` does, or an Execution Trace beside it",
    ),
    Need.SHAPES: ("no shapes were recorded", "Capture with record_shapes=True, as `tracebraid capture` does"),
    Need.STACKS: (
        "no Python frames were recorded",
        "Capture with `tracebraid capture --stacks`, or with_stack=True",
    ),
    Need.MODULES: (
        "no calls of nn.Module were recorded",
        "Capture with `tracebraid capture --stacks`, or with_stack=True",
    ),
    Need.ANNOTATIONS: (
        "nothing in the program is annotated",
        "Mark its parts with torch.profiler.record_function",
    ),
    Need.ALLOCATIONS: (
        "neither allocations nor an Execution Trace were recorded",
        "Capture with `tracebraid capture --memory`, or profile_memory=True",
    ),
    Need.MEMORY: (
        "no allocations were recorded",
        "Capture with `tracebraid capture --memory`, or profile_memory=True",
    ),
    Need.SYNC_EVENTS: (
        "no synchronisations were recorded as the device saw them",
        "Capture with experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)",
    ),
    Need.COMMUNICATION: (
        "nothing communicates in the trace",
        "Capture a rank of a program that runs on several",
    ),
    Need.COLLECTIVES: (
        "no collective's kernel carries its group, type and sizes",
        "Capture with a torch that writes them: 2.2 or newer, over NCCL",
    ),
    Need.COUNTERS: (
        "no hardware counters were recorded",
        "Capture with profiler_metrics in torch._C._profiler._ExperimentalConfig",
    ),
    Need.GRAPH_LAUNCHES: ("no graph was launched", "Capture while CUDA or HIP graphs are replayed"),
    Need.EXECUTION_TRACE: (
        "there is no Execution Trace",
        "Capture with `tracebraid capture`, which records both traces",
    ),
    Need.DEVICE_PEAKS: (
        "the table of peaks does not have the trace's device",
        "State its peaks: --peak-flops and --peak-bandwidth",
    ),
    Need.INFERENCE_ITERATIONS: (
        "no iteration of a language model's inference is in the trace",
        "Capture a serving engine, which annotates them; or with record_shapes=True; or annotate `prefill`, `decode`",
    ),
}
"""What a trace lacks, and how to capture it."""
