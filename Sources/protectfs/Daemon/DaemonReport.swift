// What the daemon tells the command that has started it: one line through a pipe, ready or why not.

import Glibc
import HostSystem

/// The daemon's end of the report pipe; nothing where it runs in the foreground.
struct DaemonReport: ~Copyable {
    /// Where the command that starts it puts the pipes (descriptors of the child).
    static let reportNumber: Int32 = 3
    /// The secret's pipe.
    static let secretNumber: Int32 = 4

    private let pipe: Descriptor?

    /// Takes the descriptor that the starter left; nil in the foreground.
    init(isStarted: Bool) {
        pipe = isStarted ? Descriptor(taking: Self.reportNumber) : nil
        if isStarted { _ = fcntl(Self.reportNumber, F_SETFD, FD_CLOEXEC) }
    }

    /// The mount answers. False when nobody is there any more to be told: the starter was interrupted.
    consuming func ready() -> Bool {
        switch consume pipe {
        case .some(let pipe): (try? pipe.write("ready\n")) != nil
        case .none: true
        }
    }

    /// It does not, and this is why.
    consuming func failed(_ failure: CommandFailure) {
        switch consume pipe {
        case .some(let pipe): try? pipe.write("error \(failure.code.number) \(Output.oneLine(failure.message))\n")
        case .none: Output.error(failure.message)
        }
    }

    /// What the starter makes of the pipe's text.
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
