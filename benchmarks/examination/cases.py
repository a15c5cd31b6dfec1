"""What the advice has to say of each program: the cause, the place, and what must not be said."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.examination import job_programs, programs
from benchmarks.examination.fresh_programs import FRESH_JOBS, FRESH_PROGRAMS

__all__ = ["CASES", "DEVICE_CASES", "JOBS", "PROGRAMS", "Case"]

PROGRAMS = programs.PROGRAMS | FRESH_PROGRAMS
JOBS = job_programs.JOBS | FRESH_JOBS


@dataclass(frozen=True)
class Case:
    """One program.

    Args:
        causes: names of the advice any of which is right in first place; empty: a clean program, or a fault that costs
            no time.
        places: texts of which the first item has to name one: op, function, annotation or rank.
        also_true: names of advice that may follow; what is neither here nor in `causes` is a false item.
        verdict: texts of which the verdict has to name one, of a fault that no advice is about.
        never: names of advice that may not save more than 5 %, and texts that may not be in the verdict.
        uneven: steps differ on purpose, so that their mean counts instead of the median.
    """

    causes: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    also_true: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    uneven: bool = False

    @property
    def clean(self) -> bool:
        """Whether nothing is to be found that saves more than 5 %."""
        return not self.causes and not self.verdict

    @property
    def costs_no_time(self) -> bool:
        """Whether steps take as long without the fault, so that no saving is to be judged."""
        return not self.causes or self.causes == ("memory-growth",)


CASES: dict[str, Case] = {
    "data_loader": Case(("data-loader", "host-work"), ("standardize", "__getitem__", "DataLoader")),
    "collator": Case(("data-loader", "host-work"), ("pad_by_token", "DataLoader"), ("tiny-ops",)),
    "preprocess_in_step": Case(("host-work",), ("preprocess",)),
    "garbage_collection": Case(("garbage-collection",), ("gc", "collect")),
    "leak": Case(("memory-growth",)),
    "oversubscription": Case(("oversubscription",), ("threads",)),
    "wrong_affinity": Case(("oversubscription", "affinity"), ("core", "affinity")),
    "no_kv_cache": Case(("recomputed-prefix",), ("no_kv_cache", "aten::linear", "attend", "step")),
    "tiny_ops": Case(("tiny-ops", "launch-bound"), ("tiny_ops", "programs.py", "step")),
    "unfused_optimizer": Case(("unfused-optimizer",), ("Adam",)),
    "recompilation": Case(("recompilation",), ("recompilation", "programs.py", "Compiled", "compile")),
    "graph_break": Case(("graph-break",), ("run", "programs.py")),
    "checkpoint_saving": Case(("recording",), ("save",)),
    "slow_logging": Case(("recording",), ("after", "info", "_str", "tolist"), ("item-sync",)),
    "tokenizer_in_loop": Case(("host-work",), ("tokenize",)),
    "lock_held": Case(("host-work",), ("after", "lock", "acquire", "__enter__")),
    "io_wait": Case(("host-work", "io-wait"), ("fsync", "after", "write")),
    "double_by_accident": Case(("double-precision",), ("aten::addmm", "aten::mm", "aten::linear", "Addmm")),
    "broadcast_distances": Case(
        ("broadcast", "memory-bound"), ("aten::square", "aten::pow", "aten::sub", "aten::sum")
    ),
    "layout_copies": Case(("layout-copies",), ("aten::contiguous", "aten::clone", "aten::copy_")),
    "needless_recomputation": Case(("costly-recomputation",), ("checkpoint", "aten::")),
    "sleep_in_step": Case(("host-work",), ("sleep", "poll")),
    "averaged_by_deepcopy": Case(("host-work",), ("deepcopy",)),
    "dense_embedding_gradient": Case(("dense-gradient",), ("embedding",)),
    "metric_by_item": Case(("item-sync", "tiny-ops"), ("item", "programs.py", "step")),
    "varied_lengths": Case(),
    "clean_training": Case(),
    "clean_attention": Case(),
    "clean_inference": Case(),
    "sleeping_rank": Case(("late-rank", "host-work"), ("rank 1",)),
    "moving_straggler": Case(("late-rank", "host-work"), ("rank", "inputs")),
    "skewed_rank": Case(("rank-imbalance",), ("rank 1",)),
    "barrier_each_step": Case(("barrier",), ("barrier",)),
    "scalar_all_reduces": Case(("small-collectives",), ("all_reduce", "allreduce")),
    "gradients_one_by_one": Case(("small-collectives",), ("all_reduce", "allreduce")),
    "synchronized_accumulation": Case(("small-collectives", "repeated-reduction"), ("all_reduce",)),
    "clean_data_parallel": Case(),
    "regex_collate": Case(
        ("data-loader", "host-work"), ("tokenize", "collate", "DataLoader"), never=("tiny-ops",)
    ),
    "augment_per_sample": Case(
        ("host-work",), ("augment", "batch"), ("layout-copies",), never=("data-loader",)
    ),
    "loss_by_sample": Case(("tiny-ops", "launch-bound"), ("triplet_loss",), never=("item-sync", "host-work")),
    "scores_by_class": Case(("tiny-ops", "item-sync"), ("f1_scores", "evaluate"), ("host-work",)),
    "clip_by_parameter": Case(
        ("tiny-ops", "item-sync", "unfused-optimizer"), ("clip_gradients",), ("host-work",)
    ),
    "average_by_parameter": Case(
        ("tiny-ops", "unfused-optimizer", "host-work"),
        ("update_average",),
        ("unfused-optimizer", "host-work"),
    ),
    "growing_cat": Case(verdict=("aten::cat", "collect_features"), never=("recomputed-prefix",)),
    "prototypes_by_mask": Case(("tiny-ops", "size-sync"), ("prototypes",)),
    "half_between_layers": Case(
        ("dtype-bounces",), ("aten::to", "aten::_to_copy", "aten::copy_", "widen", "narrow")
    ),
    "positions_each_step": Case(("host-work",), ("build_table", "train"), never=("tiny-ops",)),
    "attention_by_head": Case(("tiny-products", "tiny-ops", "eager-attention"), ("attend",), ("tiny-ops",)),
    "full_metric_queue": Case(
        ("host-work", "recording"), ("write_metrics", "put", "acquire", "wait"), ("recording",)
    ),
    "config_fingerprint": Case(("host-work",), ("fingerprint", "dumps", "json")),
    "event_files": Case(("host-work", "recording", "io-wait"), ("add_scalar", "fsync")),
    "mask_each_step": Case(verdict=("masked_fill", "causal_bias", "triu"), never=("costly-recomputation",)),
    "dense_adjacency": Case(verdict=("aten::mm", "aten::matmul", "propagate"), never=("tiny-products",)),
    "sort_for_top": Case(verdict=("aten::sort", "rank_candidates")),
    "activations_cloned": Case(verdict=("aten::clone", "aten::copy_", "hook"), never=("layout-copies",)),
    "best_state_copied": Case(("host-work",), ("keep_best", "deepcopy")),
    "saving_each_fourth": Case(("recording", "host-work"), ("save", "fsync"), ("host-work",), uneven=True),
    "pool_of_threads": Case(
        ("interpreter-lock", "host-work"), ("step", "result", "wait", "parse"), never=("data-loader",)
    ),
    "zeros_kept": Case(verdict=("aten::_foreach_zero_", "zero_", "zero_grad", "aten::add_")),
    "cells_by_hand": Case(("tiny-ops", "tiny-products"), ("unroll",)),
    "clean_item_by_microbatch": Case(never=("item-sync",)),
    "clean_many_frames": Case(never=("host-work",)),
    "clean_chatter": Case(never=("recording", "garbage-collection", "double-precision")),
    "clean_wide_recurrence": Case(never=("tiny-ops", "tiny-products")),
    "clean_sleeping_thread": Case(never=("host-work", "sleeps")),
    "clean_read_ahead": Case(never=("host-work", "data-loader", "sleeps")),
    "clean_half_weights": Case(never=("dtype-bounces",)),
    "slow_reader": Case(("host-work", "late-rank", "data-loader"), ("rank 1",), never=("rank-imbalance",)),
    "metrics_gathered": Case(
        ("small-collectives", "host-work", "recording"), ("gather_metrics", "all_gather", "allgather")
    ),
    "evaluating_rank": Case(("rank-imbalance", "late-rank"), ("rank 0",), never=("small-collectives",)),
    "clean_even_ranks": Case(never=("late-rank", "rank-imbalance")),
}
"""By the name of the program."""

assert set(CASES) == {*PROGRAMS, *JOBS}

DEVICE_CASES: dict[str, Case] = {
    "loss_read_each_microbatch": Case(("launch-bound", "item-sync"), ("train_step",)),
    "pageable_batches": Case(("pageable-copy",), ("next_batch",), ("launch-bound",)),
    "loader_without_workers": Case(
        ("data-loader", "host-work"), ("__getitem__", "batches"), ("host-op", "launch-bound")
    ),
    "products_in_float32": Case(("full-precision-products",), ("train_step",)),
    "attention_by_hand": Case(
        ("eager-attention",),
        ("_written_attention",),
        ("layout-copies", "dtype-bounces", "unfused-elementwise"),
    ),
    "loss_by_sample": Case(("tiny-ops", "launch-bound"), ("contrastive",)),
    "optimizer_by_parameter": Case(("unfused-optimizer",), ("Adam",), ("launch-bound",)),
    "small_layers_eager": Case(("launch-bound",), ("infer",)),
    "gelu_by_formula": Case(("unfused-elementwise",), ("by_formula",)),
    "chosen_by_mask": Case(("size-sync", "tiny-ops", "launch-bound"), ("class_means",), ("size-sync",)),
    "cache_emptied": Case(("allocator-retry",), ("train_step", "cudaMalloc", "cudaFree"), ("launch-bound",)),
    "garbage_each_step": Case(("garbage-collection",), ("after",), ("launch-bound",)),
    "convolutions_channels_first": Case(("layout-copies",), ("nchwToNhwc", "train_step"), ("launch-bound",)),
    "rotated_on_host": Case(("host-work",), ("table",), ("launch-bound", "pageable-copy")),
    "doubles_by_accident": Case(
        also_true=("dtype-bounces", "launch-bound", "unfused-elementwise", "double-precision"),
        never=("double-precision",),
    ),
    "timed_by_layer": Case(("explicit-sync",), ("evaluate",), ("full-precision-products", "launch-bound")),
    "metrics_on_host": Case(("read-sync",), ("evaluate",), ("host-work",)),
    "half_between_layers": Case(("dtype-bounces",), ("network",)),
    "dense_embedding_gradient": Case(("dense-gradient",), ("train_step",), ("launch-bound",)),
    "checkpointed_needlessly": Case(("costly-recomputation",), ("forward",), ("launch-bound",)),
    "norms_logged": Case(("item-sync", "tiny-ops"), ("log_norms",), ("launch-bound",)),
    "sorted_for_top": Case(verdict=("sort",), also_true=("full-precision-products",)),
    "noise_from_host": Case(("host-op", "host-work"), ("noisy",), ("launch-bound", "pageable-copy")),
    "distances_broadcast": Case(("broadcast",), ("nearest",), ("unfused-elementwise",)),
    "tokens_read_one_by_one": Case(("read-sync", "launch-bound"), ("decode",), ("read-sync",)),
    "attends_to_grown_cache": Case(verdict=("copy", "aten::cat"), also_true=("unfused-elementwise",)),
    "sleeps_for_quota": Case(("host-work",), ("sleep",), ("launch-bound",)),
    "products_by_head": Case(("tiny-products",), ("heads",), ("launch-bound",)),
    "width_unaligned": Case(("unaligned-products",), ("<lambda>",)),
    "offloaded_activations": Case(
        ("stored-activations",), ("unpack_from_cpu",), ("full-precision-products", "read-sync")
    ),
    "clean_transformer": Case(never=("eager-attention", "launch-bound")),
    "clean_graph_replay": Case(never=("launch-bound",)),
    "clean_prefetch": Case(never=("pageable-copy",)),
    "clean_loss_read_once": Case(never=("item-sync",)),
    "clean_compiled": Case(never=("unfused-elementwise",)),
    "clean_memory_bound": Case(),
}
"""By the name of a program of `device_programs`."""
