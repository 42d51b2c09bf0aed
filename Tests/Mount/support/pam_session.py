"""One login program: makes PAM's calls as lines on standard input say, and answers each with a line.

Usage: pam_session.py SERVICE USER
A line is the name of a call, then its JSON: authenticate PASSWORD, change [OLD, NEW] (as a login changes a password that has
expired), set NEW (as root does), user NAME (as sudo changes it), open, close. Others change the program itself: limit [SOFT, HARD]
(RLIMIT_FSIZE, with the signal's usual action), hide (from now on it has no /proc).
The answer is the number that PAM returned, or 0. The end of the input ends PAM, and closes no session.
"""

import ctypes
import json
import resource
import signal
import sys

PAM_PROMPT_ECHO_OFF, PAM_USER, PAM_SUCCESS, PAM_CHANGE_EXPIRED_AUTHTOK = 1, 2, 0, 0x20


class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class Response(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Message)),
                            ctypes.POINTER(ctypes.POINTER(Response)), ctypes.c_void_p)


class Conversation(ctypes.Structure):
    _fields_ = [("function", CONVERSE), ("data", ctypes.c_void_p)]


def main(service, user):
    pam, libc = ctypes.CDLL("libpam.so.0"), ctypes.CDLL(None)
    libc.calloc.restype = libc.strdup.restype = ctypes.c_void_p
    secrets = []

    @CONVERSE
    def converse(count, messages, responses, _):
        """PAM frees the array and the texts."""
        place = ctypes.cast(libc.calloc(ctypes.c_size_t(count), ctypes.c_size_t(ctypes.sizeof(Response))), ctypes.POINTER(Response))
        for index in range(count):
            if messages[index].contents.style == PAM_PROMPT_ECHO_OFF:
                place[index].text = libc.strdup(secrets.pop(0).encode() if secrets else b"")
        responses[0] = place
        return PAM_SUCCESS

    handle, conversation = ctypes.c_void_p(), Conversation(converse, None)
    if pam.pam_start(service.encode(), user.encode(), ctypes.byref(conversation), ctypes.byref(handle)) != PAM_SUCCESS:
        sys.exit("pam_start failed")
    for line in sys.stdin:
        call, _, words = line.strip().partition(" ")
        value = json.loads(words) if words else None
        if call == "authenticate":
            secrets[:] = [value]
            code = pam.pam_authenticate(handle, 0)
        elif call == "change":
            secrets[:] = [value[0], value[1], value[1]]
            code = pam.pam_chauthtok(handle, PAM_CHANGE_EXPIRED_AUTHTOK)
        elif call == "set":
            secrets[:] = [value, value]
            code = pam.pam_chauthtok(handle, 0)
        elif call == "limit":
            # Python ignores this signal.
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, tuple(value))
            code = 0
        elif call == "hide":
            # unshare(CLONE_NEWNS), and an empty directory above /proc.
            code = libc.unshare(0x20000) or libc.mount(b"tmpfs", b"/proc", b"tmpfs", 0, None)
        elif call == "user":
            code = pam.pam_set_item(handle, PAM_USER, value.encode())
        else:
            code = {"open": pam.pam_open_session, "close": pam.pam_close_session}[call](handle, 0)
        print(code, flush=True)
    pam.pam_end(handle, PAM_SUCCESS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
