"""A program around the Python bouncer library. ../README.md has the command line and the output."""

import json
import logging
import os
import sys
import threading

from pycrowdsec.client import QueryClient, StreamClient

PART = 1000

said = threading.Lock()


def say(*lines):
    # pulls are told on a thread of the library: lines must not mix, nor a set be cut in two
    with said:
        for line in lines:
            print(json.dumps(line), flush=True)


class Reporting(StreamClient):
    def process_response(self, response):
        super().process_response(response)
        say({"event": "pull", "new": len(response["new"]), "deleted": len(response["deleted"])})


def lines_of_set(client):
    decisions = [[value, action] for value, action in client.get_current_decisions().items()]
    for at in range(0, len(decisions), PART):
        yield {"event": "part", "decisions": decisions[at : at + PART]}
    yield {"event": "set", "count": len(decisions)}


def stream(url, key, seconds):
    client = Reporting(api_key=key, lapi_url=f"{url}/")
    # its constructor takes whole seconds only
    client.interval = float(seconds)
    try:
        client.run()
    except Exception as error:
        say({"event": "failed", "error": f"{type(error).__name__}: {error}"})
        return 1
    for order in sys.stdin:
        if order.strip() == "set":
            say(*lines_of_set(client))
    return 0


def live(url, key):
    client = QueryClient(api_key=key, lapi_url=f"{url}/")
    for line in sys.stdin:
        for address in line.split():
            try:
                decisions = client.get_decisions_for(address) or []
                say({"event": "answer", "address": address, "types": sorted({each["type"] for each in decisions})})
            except Exception as error:
                say({"event": "answer", "address": address, "error": f"{type(error).__name__}: {error}"})
    return 0


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    mode, rest = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if mode == "stream" and len(rest) == 3:
        return stream(*rest)
    if mode == "live" and len(rest) == 2:
        return live(*rest)
    sys.stderr.write("usage: bouncer.py stream BASE_URL KEY SECONDS | live BASE_URL KEY\n")
    return 2


code = main()
sys.stdout.flush()
# the library's thread never ends by itself
os._exit(code)
