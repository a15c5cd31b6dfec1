"""What the host does around each allocation: ops, modules, phases of a step, calls of the allocator."""
