"""Secure sums and differential privacy: aggregators that show the server less than each update."""
