"""SharedSupportGradMP, this project's own method: clients choose the support by sums."""
