// A pipe between two processes.

import CLinuxShim

/// A pipe whose two ends are closed on exec.
package struct Pipe: ~Copyable, Sendable {
    /// The read end. A caller that takes it closes it.
    package var reading: Descriptor?
    /// The write end.
    package var writing: Descriptor?

    /// pipe2(2) with O_CLOEXEC.
    package init() throws(SystemError) {
        reading = nil
        writing = nil
        var ends: [Int32] = [-1, -1]
        guard unsafe pfs_pipe(&ends) == 0 else { throw .last("pipe2") }
        reading = Descriptor(taking: ends[0])
        writing = Descriptor(taking: ends[1])
    }
}
