// The two configuration files: where they are, and whose they must be.

import CLibrary
import CommandSupport
package import HostSystem

/// A configuration file. It need not exist.
package struct ConfigurationFile: Sendable {
    /// Where the file is, or would be.
    package let path: HostPath
    /// Whether it is the administrator's.
    let isSystem: Bool

    /// The files, the strongest defaults first.
    package static var all: [ConfigurationFile] {
        let own = SystemPaths.userConfiguration.map { [ConfigurationFile(path: $0, isSystem: false)] } ?? []
        return own + [ConfigurationFile(path: SystemPaths.systemConfiguration, isSystem: true)]
    }

    /// The users who may own it.
    private var owners: Set<UInt32> { isSystem ? [0] : [0, SystemPaths.user] }

    /// Whether it is there.
    package var exists: Bool { (try? FileStatus.read(path)) != nil }

    /// Its settings; none if it does not exist. A file that someone else could have written is refused, and so is one that cannot
    /// be read, because its rules would be lost.
    func settings() throws(CommandFailure) -> [Setting] {
        guard let (bytes, problem) = try read() else { return [] }
        if let problem { throw .init(.usage, "\(path): \(problem)") }
        do throws(ConfigurationError) {
            return try ConfigurationText.parse(bytes).map { Setting(file: path, line: $0) }
        } catch {
            throw .init(.usage, "\(path), line \(error.line): \(error.message)")
        }
    }

    /// The bytes of the file, or why it cannot be trusted. Nil if it does not exist.
    private func read() throws(CommandFailure) -> (bytes: [UInt8], problem: String?)? {
        if isSystem, (try? FileStatus.read(path.parent)) != nil, !SystemPaths.isSafe(path.parent, owners: owners) {
            throw .init(.usage, "\(path.parent): must be a directory of root that nobody else can write to")
        }
        do throws(SystemError) {
            // Opening a FIFO must not wait.
            let file = try Descriptor(opening: path, O_RDONLY | O_NOCTTY | O_NONBLOCK)
            let problem = problem(try file.status())
            let bytes = problem == nil ? try file.readAll(limit: ConfigurationText.longest + 1) : []
            return (bytes, problem)
        } catch {
            // A link that leads nowhere is there. A service may not be allowed to look into homes, not even its user's own.
            let missing = isSystem ? [ENOENT, ENOTDIR] : [ENOENT, ENOTDIR, EACCES]
            if missing.contains(error.code), !exists { return nil }
            throw .init(.failure, "\(path): the configuration file cannot be read: \(error.reason)")
        }
    }

    /// Why an opened file cannot be trusted. Nil if it can.
    private func problem(_ status: stat) -> String? {
        guard status.st_mode & S_IFMT == S_IFREG else { return "not a regular file" }
        guard owners.contains(status.st_uid) else {
            return "belongs to \(AccountNames.user(status.st_uid)), and must belong to \(isSystem ? "root" : "you")"
        }
        return status.st_mode & 0o022 == 0 ? nil : "other users can write to it; run chmod go-w on it"
    }
}
