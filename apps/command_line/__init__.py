"""The `turnflow` command."""
