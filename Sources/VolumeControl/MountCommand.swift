// Mounts volumes through the command `protectfs`.

internal import HostSystem
internal import SodiumKit

extension MountedVolume {
    /// Mounts a volume with `protectfs mount`, which returns when the mount is ready. The command is looked for in PATH, and
    /// gets the secret through a pipe.
    ///
    /// - Parameters:
    ///   - store: the volume's directory.
    ///   - mountPoint: an empty directory.
    ///   - options: mount options, as after `-o`.
    ///   - secret: nil mounts without unlocking.
    /// - Throws: `VolumeControlError.wrongSecret`, `.busy` if it is mounted already, or `.failed` with what the command says.
    public static func mount(
        _ store: String, at mountPoint: String, options: [String] = [], unlockingWith secret: consuming GuardedSecret?
    ) throws(VolumeControlError) -> MountedVolume {
        var words = ["protectfs", "mount"]
        if !options.isEmpty { words += ["-o", options.joined(separator: ",")] }
        if let secret {
            words += [secret.kind.option, "-"]
            try run(words + ["--", store, mountPoint], mountPoint, secret)
        } else {
            try run(words + ["--no-unlock", "--", store, mountPoint], mountPoint, nil)
        }
        return try MountedVolume(at: mountPoint)
    }

    private static func run(
        _ words: [String], _ mountPoint: String, _ secret: consuming GuardedSecret?
    ) throws(VolumeControlError) {
        let (ending, text): (ChildProcess.Ending, [UInt8])
        do throws(SystemError) { (ending, text) = try end(of: words, secret) } catch { throw .failed("\(error)") }
        let message = String(decoding: text, as: UTF8.self).trimmed
        switch ending {
        case .exited(0): return
        // The exit codes are listed in protectfs(1).
        // A missing device key has this code too, and a message of its own.
        case .exited(3): throw message.contains("wrong") ? .wrongSecret : .failed(message)
        case .exited(6): throw .busy(message)
        case .exited(let code): throw .failed(message.isEmpty ? "protectfs: exit code \(code)" : message)
        case .signalled(let signal): throw .failed("protectfs: killed by signal \(signal)")
        }
    }

    /// Runs the command with the secret as its input. Returns how it has ended, and what it has said on standard error.
    private static func end(
        of words: [String], _ secret: consuming GuardedSecret?
    ) throws(SystemError) -> (ChildProcess.Ending, [UInt8]) {
        var input = try Pipe()
        var errors = try Pipe()
        guard let from = input.reading.take(), let to = input.writing.take(), let told = errors.reading.take(),
            let telling = errors.writing.take()
        else { preconditionFailure("a new pipe has two ends") }
        // A pipe takes 4,096 bytes at once, so this waits for nobody.
        if let secret {
            try secret.bytes.withBytes { (bytes: Span<UInt8>) throws(SystemError) in try to.write(bytes) }
        }
        _ = consume to
        let child = try ChildProcess.start(
            HostPath("protectfs"), words.map { Array($0.utf8) },
            descriptors: [(0, from.number), (2, telling.number)], hasTerminal: false)
        _ = consume from
        _ = consume telling
        let text = (try? told.readAll(limit: longestMessage)) ?? []
        // So a command that says more ends, too.
        _ = consume told
        return (try child.wait(), text)
    }

    /// The longest message of the command that is kept, in bytes.
    private static let longestMessage = 1 << 16
}

extension String {
    /// Without white space at its ends.
    fileprivate var trimmed: String {
        let rest = drop { $0.isWhitespace }
        return String(rest.prefix(rest.count - rest.reversed().prefix { $0.isWhitespace }.count))
    }
}
