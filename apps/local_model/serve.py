"""The child process that holds llama.cpp: started by `LocalModelServer`, not meant to be run by hand.

It is a process of its own because the server inside `xllamacpp` cannot be stopped from within the program
that talks to it while a request is running (its destructor waits for the request and keeps the interpreter's
lock), and because a crash of native code should end the toy, not the user's program.

The protocol: one JSON object on standard input (`weights`, `api_key`, `context_tokens`), then one JSON object
on standard output (`base_url`). Standard input stays open as long as the parent lives; its end is the order
to stop, which the parent need not survive to give.
"""

import json
import os
import sys
from typing import Any

import xllamacpp

QUIET = 1  # llama.cpp's verbosity: errors only.


def server_params(order: dict[str, Any]) -> xllamacpp.CommonParams:
    """Return the server's settings: loopback, a free port, one conversation at a time, a key."""
    params = xllamacpp.CommonParams()
    params.model.path = order["weights"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["api_key"]]
    params.n_ctx = order["context_tokens"]
    params.n_parallel = 1
    params.use_jinja = True
    params.verbosity = QUIET
    params.ui = False
    params.endpoint_slots = False
    return params


def main() -> None:
    """Serve until standard input ends."""
    order = json.loads(sys.stdin.buffer.readline())
    server = xllamacpp.Server(server_params(order))
    sys.stdout.write(json.dumps({"base_url": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # Without destructors: the server's own waits for running requests, and nobody reads those any more.
    os._exit(0)


if __name__ == "__main__":
    main()
