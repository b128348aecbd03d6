"""Suites: grids of runs on one machine or on a cluster, that can be stopped, killed and resumed."""
