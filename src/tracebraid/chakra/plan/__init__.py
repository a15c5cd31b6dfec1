"""Plan a simulated job: ranks, groups and communication, in an order that cannot deadlock."""
