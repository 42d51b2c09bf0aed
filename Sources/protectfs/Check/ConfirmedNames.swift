// The names that the user confirms for `fsck --repair`: one by one, as a list in a file, or when asked.

import CLibrary
import CommandSupport
import HostSystem
import ProtectedVolume
import VolumeCheck

/// Names that the user has confirmed. Thread-safe.
final class ConfirmedNames: Sendable {
    static let options = [
        Option(
            "accept-name", value: Value(name: "PATH", kind: .text), repeats: true,
            help: "with --repair, accept the unverified name PATH; may be given several times"),
        Option(
            "accept-names-from", value: .file, help: "with --repair, accept the unverified name in each line of FILE"),
        Option("accept-names", help: "with --repair, ask about each unverified name"),
    ]
    /// The largest size of a list of names.
    private static let largestList = 64 << 20

    private let paths: Set<[UInt8]>
    private let asks: Bool
    private let progress: Progress
    /// The answers, so that each question is asked once. The lock is held while the user types.
    private let answers = Lock<[[UInt8]: Bool]>([:])

    init(_ arguments: Arguments, progress: Progress) throws(CommandFailure) {
        for name in ["accept-name", "accept-names-from", "accept-names"] where arguments.has(name) {
            guard arguments.has("repair") else {
                throw .init(.usage, "--\(name) needs --repair")
            }
        }
        asks = arguments.has("accept-names")
        guard !asks || Terminal.isTerminal(0) else {
            throw .init(
                .usage, "--accept-names asks, and there is no terminal; in scripts use --accept-names-from")
        }
        var given = arguments.all("accept-name").map(\.bytes)
        if let file = arguments.path("accept-names-from") {
            do throws(SystemError) {
                let text = try readFile(file, limit: Self.largestList)
                given += text.split(separator: UInt8(ascii: "\n")).map(Array.init)
            } catch {
                throw .init(.usage, "\(file): \(SystemError.reason(of: error.code))")
            }
        }
        paths = Set(given.map { CheckOptions.confirmablePath($0) })
        self.progress = progress
    }

    /// Whether the name at `path`, as the check gives it, is confirmed.
    func isConfirmed(_ path: [UInt8]) -> Bool {
        if paths.contains(path) { return true }
        // The question is about this entry, not about every entry with the name.
        guard asks, let name = CheckOptions.nameCarried(by: path) else { return false }
        return answers.withLock { answers in
            if let known = answers[path] { return known }
            progress.end()
            let question = Output.oneLine(
                "/\(HostPath(bytes: path)): the name \(HostPath(bytes: name)) is not verified. Accept it? [y/N] ")
            let answer = (try? Terminal.ask(question)) ?? []
            let isYes = [Array("y".utf8), Array("yes".utf8), Array("Y".utf8)].contains(answer)
            answers[path] = isYes
            return isYes
        }
    }
}
