"""What stands around the graph: command line, fake provider, local model, example tools."""
