"""A program around the Python server SDK. ../README.md has the command line and the output."""

import json
import logging
import os
import sys
import threading

import ldclient
from ldclient import Context, datasystem
from ldclient.config import Config

READY_SECONDS_MAX = 20
POLL_SECONDS = 30
MODES = {
    "fdv1-stream": {},
    "fdv1-poll": {"stream": False},
    "fdv2": {"datasystem_config": datasystem.default},
    "fdv2-stream": {"datasystem_config": datasystem.streaming},
    "fdv2-poll": {"datasystem_config": datasystem.polling},
}

said = threading.Lock()


def say(**line):
    # listeners run on threads of the SDK: two lines must not mix
    with said:
        print(json.dumps(line), flush=True)


def error_text(error):
    return "" if error is None else f"{error.kind.value} {error.status_code} {error.message}"


def config_for(mode, base_url, sdk_key):
    options = {name: value() if callable(value) else value for name, value in MODES[mode].items()}
    options = {name: value.build() if hasattr(value, "build") else value for name, value in options.items()}
    return Config(
        sdk_key,
        base_uri=base_url,
        stream_uri=base_url,
        events_uri=base_url,
        send_events=False,
        diagnostic_opt_out=True,
        poll_interval=POLL_SECONDS,
        **options,
    )


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in MODES:
        sys.stderr.write(f"usage: driver.py {'|'.join(MODES)} BASE_URL SDK_KEY\n")
        return 2
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    context = (
        Context.builder("user-key").set("email", "a@example.com").set("plan", "pro").set("country", "NL").build()
    )
    client = ldclient.LDClient(config_for(*sys.argv[1:]), start_wait=READY_SECONDS_MAX)
    if not client.is_initialized():
        say(event="failed", error=error_text(client.data_source_status_provider.status.error))
        return 1
    client.flag_tracker.add_listener(
        lambda change: say(event="change", key=change.key, value=client.variation(change.key, context, None))
    )
    client.data_source_status_provider.add_listener(
        lambda status: say(event="status", state=status.state.value.upper(), error=error_text(status.error))
    )
    say_flags = lambda event: say(event=event, flags=client.all_flags_state(context).to_values_map())
    say_flags("initialized")
    for line in sys.stdin:
        if line == "flags\n":
            say_flags("flags")
    client.close()
    return 0


code = main()
sys.stdout.flush()
# threads of the SDK that are still in a read would keep an ordinary exit waiting
os._exit(code)
