"""``python -m curb_client.cli`` is ``curb-client``."""

from curb_client.cli import main

main()
