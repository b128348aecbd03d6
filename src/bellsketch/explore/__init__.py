"""A page on which settings of a sketch are tried out."""
