"""What every run has, a figure's or an agent's: a directory of its own, a config, and where it comes from."""
