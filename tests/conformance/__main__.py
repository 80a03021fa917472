"""``python -m tests.conformance``: compares a server with the record, or makes the record anew."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

from curb_client.testing import livekit_server
from tests.conformance.comparison import ALLOWED, differences, read_record, surprises, write_record
from tests.conformance.script import run_script


def main() -> int:
    """Returns 1 where the server differs in what it should not."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--livekit", default="embedded", help="'embedded', 'server' or a URL; see livekit_server")
    parser.add_argument("--write", action="store_true", help="make the record anew")
    parser.add_argument("--only", default="", help="only entries whose names begin so")
    options = parser.parse_args()
    if options.write and (options.only or options.livekit == "embedded"):
        parser.error("the record is made by the whole script, on livekit-server")
    logging.getLogger("livekit").setLevel(logging.CRITICAL)  # it reports what the script provokes
    began = time.monotonic()
    with livekit_server(options.livekit) as server:
        found = asyncio.run(run_script(server, options.only))
        version = server.version
    print(f"{len(found)} entries in {time.monotonic() - began:.0f} s")
    if options.write:
        write_record(found, version)
        return 0
    expected = {name: value for name, value in read_record().items() if name.startswith(options.only)}
    allowed = {path: why for path, why in ALLOWED.items() if path.startswith(options.only)}
    lines = surprises(differences(expected, found), allowed if options.livekit == "embedded" else {})
    print("\n".join(lines) or "no difference that is not allowed")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
