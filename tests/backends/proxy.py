"""A door to a server that shuts at the worst moment: when a statement has been carried out and its answer is due."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Passes bytes between clients and a server, until the `time`th statement that holds `moment` has been answered."""

    def __init__(self, url: str, moment: bytes, time: int) -> None:
        # Every transaction begins with READ COMMITTED, which is no commit.
        self.moment, self.time = re.compile(moment + rb"(?!TED)"), time
        self.door = socket.create_server(("127.0.0.1", 0))
        self.server = urlsplit(url).port
        self.url = url.replace(f":{self.server}/", f":{self.door.getsockname()[1]}/")
        self.lost = 0
        """How many answers nobody got."""
        threading.Thread(target=self._open, daemon=True).start()

    def _open(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.door.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(("127.0.0.1", self.server))) as server:
            cut = threading.Event()
            threading.Thread(target=self._answer, args=(server, client, cut), daemon=True).start()
            with suppress(OSError):
                while data := client.recv(65536):
                    if self.moment.search(data):
                        self.time -= 1
                        if self.time == 0:
                            cut.set()
                    server.sendall(data)

    def _answer(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def losing_the_answer(url: str, moment: bytes, time: int) -> Iterator[Proxy]:
    """A proxy for the block, in front of the server at `url`."""
    proxy = Proxy(url, moment, time)
    with closing(proxy.door):
        yield proxy
