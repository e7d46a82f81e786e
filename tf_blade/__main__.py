"""`python -m tf_blade`: the command line without the installed script."""

import sys

from tf_blade.cli import main

sys.exit(main())
