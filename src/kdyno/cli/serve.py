# SPDX-License-Identifier: MIT
"""kdyno serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kdyno.verbs.options import Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, say, write_json

NAME = "serve"
EXAMPLES = "Examples: kdyno serve | kdyno serve --port 8500 | kdyno serve --runs DIR --full"
LOCAL = "127.0.0.1"
PORT = 8421
LOOK_EVERY_S = 2.0


def verb(
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 takes any free one."),
    ] = PORT,
    bind: Annotated[
        str,
        typer.Option(
            "--bind",
            metavar="ADDRESS",
            help="Address to listen on; who reaches it can read the runs.",
        ),
    ] = LOCAL,
    full: Annotated[
        bool, typer.Option("--full", help="Reports with every chart; a second or more each.")
    ] = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Show all runs in a browser, as they change, until Ctrl-C.

    Those of the store that KDYNO_STORE names, unless --runs names a folder.
    """
    import threading
    from hashlib import sha256

    from kdyno import labs, whole
    from kdyno.errors import UsageError
    from kdyno.paths import cache_root
    from kdyno.report.site.build import Told, build_site
    from kdyno.report.site.server import SiteServer, watch
    from kdyno.report.site.shared import SharedSite
    from kdyno.store.database.address import shown
    from kdyno.store.database.query import Wanted
    from kdyno.verbs.sharing import store
    from kdyno.verbs.watching import site_line

    check_writable(json)
    shared = store() if runs is None else None
    folder = runs_folder(runs)
    if shared is None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs; choose another with --runs")
    # Where the pages lie between sessions, so that only what changed is made again.
    place = str(folder.resolve()) if shared is None else shared.address
    key = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    site: Path = cache_root() / "sites" / key
    with whole.cache_errors(site):
        site.mkdir(parents=True, exist_ok=True)
    # The port first: whoever has it taken must not wait for the pages to learn of it.
    server = SiteServer(site, bind, port)
    stop = threading.Event()

    pages = None
    if shared is not None:
        pages = SharedSite(
            shared, site, cache_root(), Wanted(), full=full, live=True, sections=labs.sections
        )
        server.absent = pages.make

    def build(told: Told = lambda _done, _all: None) -> str:
        if pages is not None:
            return pages.build().edition
        return build_site(
            folder, site, full=full, live=True, told=told, sections=labs.sections
        ).edition

    try:
        with site_line() as told:
            server.edition = build(told)
        if not server.is_local:
            say(f"warning: whoever reaches {bind} can read these runs")
        if json is not None:
            of = str(folder) if shared is None else shown(shared.address)
            write_json({"url": server.url, "runs": of, "site": str(site)}, json)
        say(f"{server.url}  (Ctrl-C ends it)")

        arguments = (server, build, LOOK_EVERY_S, stop, say)
        threading.Thread(target=watch, args=arguments, daemon=True).start()
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("ended")
    finally:
        stop.set()
        server.server_close()
    return 0
