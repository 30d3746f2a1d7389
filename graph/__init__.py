"""What flows through a turn and how the seven nodes are joined."""
