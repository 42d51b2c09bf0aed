"""Servers of this machine: free ports, and a web server for programs that download."""

import contextlib
import functools
import http.server
import os
import socket
import threading


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(place, **contents):
    """Serves files with these contents from a new directory; gives the address of that directory."""
    os.mkdir(place)
    for name, content in contents.items():
        with open(os.path.join(place, name), "wb") as file:
            file.write(content)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=place)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
