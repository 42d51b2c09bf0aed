// The daemon's report to the command that started it: one line through a pipe, either ready or the reason of the failure.

import CLibrary
import CommandSupport
import HostSystem

/// The daemon's end of the report pipe. Empty in the foreground.
package struct DaemonReport: ~Copyable {
    /// The descriptors of the pipes in the child, as its starter sets them.
    static let reportNumber: Int32 = 3
    /// The secret's pipe.
    package static let secretNumber: Int32 = 4

    private let pipe: Descriptor?

    /// Takes the descriptor from the starter. Nil in the foreground.
    init(isStarted: Bool) {
        pipe = isStarted ? Descriptor(taking: Self.reportNumber) : nil
        if isStarted { _ = fcntl(Self.reportNumber, F_SETFD, FD_CLOEXEC) }
    }

    /// Reports that the mount answers. False if the starter is gone because it was interrupted.
    consuming func ready() -> Bool {
        switch consume pipe {
        case .some(let pipe): (try? pipe.write("ready\n")) != nil
        case .none: true
        }
    }

    /// Reports the reason why the mount failed.
    consuming func failed(_ failure: CommandFailure) {
        switch consume pipe {
        case .some(let pipe): try? pipe.write("error \(failure.code.number) \(Output.oneLine(failure.message))\n")
        case .none: Output.error(failure.message)
        }
    }

    /// Reads the pipe's text, for the starter.
    static func parse(_ bytes: [UInt8]) throws(CommandFailure) {
        let text = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        if text == "ready" { return }
        let parts = text.split(separator: " ", maxSplits: 2)
        guard parts.count == 3, parts[0] == "error", let code = Int32(parts[1]) else {
            throw .init(
                .failure,
                "the daemon ended before the mount answered; the system log may say why (journalctl -t protectfs)")
        }
        throw .init(ExitCode(number: code), String(parts[2]))
    }
}
