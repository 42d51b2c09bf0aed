"""mincore(2) and userfaultfd(2), which Python does not have."""

import ctypes
import fcntl
import mmap
import os
import platform
import struct

from harness import PAGE, Skip

libc = ctypes.CDLL(None, use_errno=True)


def address_of(memory):
    """The address of a writable mapping."""
    anchor = ctypes.c_char.from_buffer(memory)
    try:
        return ctypes.addressof(anchor)
    finally:
        del anchor


def resident(memory):
    """How many pages of a writable mapping of a file are in the page cache."""
    pages = (len(memory) + PAGE - 1) // PAGE
    vector = (ctypes.c_ubyte * pages)()
    if libc.mincore(ctypes.c_void_p(address_of(memory)), ctypes.c_size_t(len(memory)), vector) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(entry & 1 for entry in vector)


class SleepingPage:
    """A page of memory whose first touch, by the kernel too, sleeps until it is filled."""

    NUMBERS = {"x86_64": 323, "aarch64": 282}
    API, REGISTER, COPY = 0xC018AA3F, 0xC020AA00, 0xC028AA03

    def __init__(self):
        number = self.NUMBERS.get(platform.machine())
        self.handle = libc.syscall(number, os.O_CLOEXEC) if number else -1
        if self.handle < 0:
            raise Skip("userfaultfd is not allowed here")
        fcntl.ioctl(self.handle, self.API, bytearray(struct.pack("<QQQ", 0xAA, 0, 0)))
        self.memory = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = address_of(self.memory)
        fcntl.ioctl(self.handle, self.REGISTER, bytearray(struct.pack("<QQQQ", self.address, PAGE, 1, 0)))

    def write_to(self, handle, offset):
        """pwrite(2) of the page; sleeps until `fill`."""
        count = libc.pwrite(handle, ctypes.c_void_p(self.address), ctypes.c_size_t(PAGE), ctypes.c_long(offset))
        if count < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return count

    def wait_for_sleeper(self):
        """Returns when somebody sleeps on the page."""
        os.read(self.handle, 32)

    def fill(self, content):
        """Gives the page its content and wakes the sleeper."""
        source = ctypes.create_string_buffer(content, PAGE)
        fcntl.ioctl(self.handle, self.COPY, bytearray(
            struct.pack("<QQQQq", self.address, ctypes.addressof(source), PAGE, 0, 0)))
