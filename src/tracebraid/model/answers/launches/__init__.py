"""Tables of answers about launches, copies, queues and waits."""
