"""``python -m bellsketch``."""

import sys

from bellsketch.cli import main

sys.exit(main())
