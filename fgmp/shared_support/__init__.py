"""SharedSupportGradMP: clients choose the support together, by sums (not in the paper)."""
