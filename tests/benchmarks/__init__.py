"""The overhead of a turn, next to other agent loops (docs/benchmarks.md)."""
