"""Linux' asynchronous I/O (io_submit(2)) through libaio: what fio, MySQL and QEMU write with."""

import ctypes
import ctypes.util
import mmap
import struct

import harness

PREAD, PWRITE = 0, 1
IOCB = struct.Struct("<QIIHhIQQQQII")


def library():
    name = ctypes.util.find_library("aio")
    if not name:
        raise harness.Skip("libaio is not installed")
    return ctypes.CDLL(name, use_errno=True)


class Requests:
    """Writes one buffer, or reads it, in requests of one size that are all under way at the same time."""

    def __init__(self, length, request):
        self.library, self.length, self.request = library(), length, request
        self.count = -(-length // request)
        self.buffer = mmap.mmap(-1, length)
        self.context = ctypes.c_void_p()
        self.check(self.library.io_setup(self.count, ctypes.byref(self.context)))

    @staticmethod
    def check(result):
        if result < 0:
            raise OSError(-result, "libaio")
        return result

    def write(self, handle, content):
        """Returns when all of `content`, of the length given above, is written."""
        self.buffer[:] = content
        for index, result in self.run(PWRITE, handle):
            assert result == min(self.request, self.length - index * self.request), f"request {index}: {result}"

    def read(self, handle):
        """Returns the content, with zeros where a request ended early."""
        self.buffer[:] = bytes(self.length)
        for index, result in self.run(PREAD, handle):
            assert result >= 0, f"request {index}: {result}"
        return self.buffer[:]

    def run(self, operation, handle):
        """Does all requests. Gives the number and the result of each."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        blocks = []
        for number in range(self.count):
            start = number * self.request
            blocks.append(ctypes.create_string_buffer(IOCB.pack(
                number, 0, 0, operation, 0, handle, address + start, min(self.request, self.length - start), start, 0, 0, 0), 64))
        pointers = (ctypes.c_void_p * self.count)(*(ctypes.addressof(block) for block in blocks))
        submitted = 0
        while submitted < self.count:
            submitted += self.check(self.library.io_submit(
                self.context, ctypes.c_long(self.count - submitted), ctypes.byref(pointers, submitted * 8)))
        events = ctypes.create_string_buffer(32 * self.count)
        done = 0
        while done < self.count:
            done += self.check(self.library.io_getevents(
                self.context, ctypes.c_long(1), ctypes.c_long(self.count - done), ctypes.byref(events, 32 * done), None))
        for number in range(self.count):
            index, _, result, _ = struct.unpack_from("<QQqq", events, 32 * number)
            yield index, result

    def close(self):
        self.check(self.library.io_destroy(self.context))
