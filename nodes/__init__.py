"""The seven nodes of a turn, one folder each."""
