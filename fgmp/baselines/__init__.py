"""The federated first-order methods that FedGradMP is compared with."""
