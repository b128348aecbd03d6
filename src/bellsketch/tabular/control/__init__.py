"""Control: what to do, where there is a choice."""
