// Starts other programs and waits for them.

import CLibrary
import CLinuxShim

/// A child process. Its parent must call `wait`.
package struct ChildProcess: Sendable {
    /// Its process ID.
    package let id: Int32

    /// How a child ended.
    package enum Ending: Sendable, Equatable {
        /// It called exit(2) with this status.
        case exited(Int32)
        /// This signal killed it.
        case signalled(Int32)
    }

    /// Starts `program` (searched in PATH unless it has a slash).
    ///
    /// - Parameters:
    ///   - arguments: the whole argument list. The first element is the program's name.
    ///   - environment: "NAME=value" strings; nil passes this process's environment.
    ///   - descriptors: descriptors of this process by their number in the child. All others except 0, 1 and 2 must be
    ///     close-on-exec, as those of this module are.
    ///   - hasTerminal: false starts it in a session of its own (setsid(2)), so that it can ask nobody.
    package static func start(
        _ program: HostPath, _ arguments: [[UInt8]], environment: [[UInt8]]? = nil,
        descriptors: [(child: Int32, own: Int32)] = [], hasTerminal: Bool = true
    ) throws(SystemError) -> ChildProcess {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        // The copies have numbers above every target, so that one dup2 cannot overwrite the source of a later one.
        var copies: [Int32] = []
        defer { for copy in copies { close(copy) } }
        for (child, own) in descriptors {
            let copy = fcntl(own, F_DUPFD_CLOEXEC, 10)
            guard copy >= 0 else { throw .last("fcntl") }
            copies.append(copy)
            unsafe posix_spawn_file_actions_adddup2(&actions, copy, child)
        }
        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        // POSIX_SPAWN_SETSIGMASK 0x08, POSIX_SPAWN_SETSID 0x80 (spawn.h).
        unsafe posix_spawnattr_setflags(&attributes, hasTerminal ? 0x08 : 0x88)
        var pid: Int32 = 0
        let code = unsafe withArgumentVector(arguments) { argv in
            unsafe program.withCString { path in
                if let environment {
                    return unsafe withArgumentVector(environment) { envp in
                        unsafe posix_spawnp(&pid, path, &actions, &attributes, argv, envp)
                    }
                }
                return unsafe posix_spawnp(&pid, path, &actions, &attributes, argv, pfs_environment())
            }
        }
        guard code == 0 else { throw SystemError(code: code, call: "posix_spawn", subject: program.description) }
        return ChildProcess(id: pid)
    }

    /// Waits until it has ended.
    package func wait() throws(SystemError) -> Ending {
        var status: Int32 = 0
        while unsafe waitpid(id, &status, 0) < 0 {
            guard errno == EINTR else { throw .last("waitpid") }
        }
        return status & 0x7F == 0 ? .exited((status >> 8) & 0xFF) : .signalled(status & 0x7F)
    }

    /// Kills it and the processes that it has started, and waits for its end. A process that has begun a session of its own, as
    /// services do, goes on.
    package func killAll() {
        let session = getsid(id)
        var stopped: Set<Int32> = []
        var found: Set<Int32> = [id]
        // A stopped process starts no others, so this ends.
        while !found.isEmpty {
            for process in found { kill(process, SIGSTOP) }
            stopped.formUnion(found)
            found = Set(Processes.started(by: id, in: session)).subtracting(stopped)
        }
        for process in stopped { kill(process, SIGKILL) }
        _ = try? wait()
    }

    /// Runs a program and waits until it ends.
    @discardableResult
    package static func run(
        _ program: String, _ arguments: [String], descriptors: [(child: Int32, own: Int32)] = []
    ) throws(SystemError) -> Ending {
        let words = [Array(program.utf8)] + arguments.map { Array($0.utf8) }
        return try start(HostPath(program), words, descriptors: descriptors).wait()
    }

    /// Runs `body` with a NULL-terminated array of C strings that lives as long as the call.
    private static func withArgumentVector<Result>(
        _ words: [[UInt8]], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        var vector: [UnsafeMutablePointer<CChar>?] = unsafe []
        for word in words {
            let terminated = word.prefix { $0 != 0 }.map { CChar(bitPattern: $0) } + [0]
            unsafe vector.append(strdup(terminated))
        }
        unsafe vector.append(nil)
        defer { unsafe vector.forEach { unsafe free($0) } }
        return unsafe body(vector)
    }
}

/// Watches another process. A pidfd always refers to the same process, while a process ID can be reused.
package struct ProcessWatch: ~Copyable, Sendable {
    private let descriptor: Descriptor

    /// Opens a pidfd for the process (pidfd_open(2)).
    package init(_ id: Int32) throws(SystemError) {
        let number = pfs_pidfd_open(id)
        guard number >= 0 else { throw .last("pidfd_open") }
        descriptor = Descriptor(taking: number)
    }

    /// To wait for the end together with other things.
    package var pollEntry: PollEntry { PollEntry(descriptor.number) }

    /// Whether the process still runs. What was read of its number before then belongs to it.
    package borrowing func isRunning() -> Bool { !waitForEnd(seconds: 0) }

    /// Sends a signal to this process, and to no other one that gets its number later.
    package borrowing func send(_ signal: Int32) throws(SystemError) {
        guard pfs_pidfd_send_signal(descriptor.number, signal) == 0 else { throw .last("pidfd_send_signal") }
    }

    /// Waits at most `seconds` until the process has ended; false if it still runs.
    package borrowing func waitForEnd(seconds: Int32) -> Bool {
        var poll = pollfd(fd: descriptor.number, events: Int16(POLLIN), revents: 0)
        while true {
            let result = unsafe CLibrary.poll(&poll, 1, seconds * 1000)
            if result >= 0 { return result > 0 }
            if errno != EINTR { return false }
        }
    }
}
