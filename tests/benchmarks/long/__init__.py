"""What long conversations cost: time per turn and size of the database (docs/benchmarks.md)."""
