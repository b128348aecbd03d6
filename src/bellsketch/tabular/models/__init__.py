"""Models that are not ours: from files, graphs, Gymnasium's tables and logs of what happened."""
