"""When each rank arrives, waits and transfers, on aligned clocks."""
