"""io_uring in a few system calls: a kernel thread writes while the program continues."""

import ctypes
import errno
import mmap
import os
import platform
import struct

import harness

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
SETUP, ENTER = 425, 426  # the same on every processor
SQ_RING, CQ_RING, SQES = 0, 0x8000000, 0x10000000
WRITE, GETEVENTS = 23, 1


class Ring:
    """A ring of a few entries with a buffer for each."""

    def __init__(self, entries, size):
        params = ctypes.create_string_buffer(120)
        self.handle = libc.syscall(SETUP, entries, params)
        if self.handle < 0:
            raise harness.Skip(f"the kernel refuses io_uring: {os.strerror(ctypes.get_errno())}")
        self.entries, self.size = entries, size
        fields = struct.unpack_from("<30I", params.raw)
        (self.sq_tail, self.sq_mask, self.sq_array), sq_count = (fields[11], fields[12], fields[16]), fields[0]
        (self.cq_head, self.cq_tail, self.cq_mask, self.cqes), cq_count = fields[20:23] + (fields[25],), fields[1]
        self.sq = self.map(self.sq_array + 4 * sq_count, SQ_RING)
        self.cq = self.map(self.cqes + 16 * cq_count, CQ_RING)
        self.sqes = self.map(64 * sq_count, SQES)
        self.buffers = mmap.mmap(-1, entries * size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffers))

    def map(self, length, offset):
        found = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.handle, offset)
        if found in (None, ctypes.c_void_p(-1).value):
            raise harness.Skip(f"io_uring's memory cannot be mapped: {os.strerror(ctypes.get_errno())}")
        return (ctypes.c_char * length).from_address(found)

    def write(self, handle, writes):
        """Hands over (offset, content) of at most as many as there are entries; gives what became of each: a length or -errno."""
        tail = struct.unpack_from("<I", self.sq, self.sq_tail)[0]
        mask = struct.unpack_from("<I", self.sq, self.sq_mask)[0]
        for number, (offset, content) in enumerate(writes):
            self.buffers[number * self.size:number * self.size + len(content)] = content
            index = (tail + number) & mask
            struct.pack_into("<BBHiQQIIQ24x", self.sqes, index * 64, WRITE, 0, 0, handle, offset,
                             self.address + number * self.size, len(content), 0, number)
            struct.pack_into("<I", self.sq, self.sq_array + 4 * index, index)
        struct.pack_into("<I", self.sq, self.sq_tail, (tail + len(writes)) & 0xFFFFFFFF)
        left, results = len(writes), {}
        while len(results) < len(writes):
            done = libc.syscall(ENTER, self.handle, left, len(writes) - len(results), GETEVENTS, None, 0)
            if done < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "io_uring_enter")
            left -= max(done, 0)
            head, end = (struct.unpack_from("<I", self.cq, place)[0] for place in (self.cq_head, self.cq_tail))
            while head != end:
                place = self.cqes + 16 * (head & struct.unpack_from("<I", self.cq, self.cq_mask)[0])
                number, result = struct.unpack_from("<Qi", self.cq, place)
                results[number] = result
                head = (head + 1) & 0xFFFFFFFF
            struct.pack_into("<I", self.cq, self.cq_head, head)
        return [results[number] for number in range(len(writes))]


def is_there():
    """Whether this kernel lets us; a machine may forbid it by sysctl or seccomp."""
    if platform.system() != "Linux":
        return False
    try:
        os.close(Ring(2, 512).handle)
        return True
    except harness.Skip:
        return False
