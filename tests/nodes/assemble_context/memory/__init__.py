"""Memory strategies."""
