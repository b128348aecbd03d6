"""What a suite came to, as a page: scores with intervals, curves, claims with verdicts, and what is missing."""
