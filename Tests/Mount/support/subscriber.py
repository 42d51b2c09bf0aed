"""A program that gets the lock's events over the control socket."""

from control_socket import ask, connect, frame, receive


class Subscriber:
    """A connection to the control socket that asks for events, and to be waited for before a lock."""

    def __init__(self, mount, wait):
        self.socket = connect(mount)
        self.state = ask(self.socket, {"request": "subscribe", "wait": wait})["state"]

    def send(self, value):
        self.socket.sendall(frame(value))

    def receive(self):
        """The next event; the test fails where the connection has ended."""
        event = receive(self.socket)
        assert event is not None, "the connection ended"
        return event

    def close(self):
        self.socket.close()
