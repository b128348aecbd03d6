"""What the paper reports, computed again. Each file returns records and draws them."""
