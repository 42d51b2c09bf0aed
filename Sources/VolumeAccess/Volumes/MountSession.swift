// Whether a mount that has ended has closed its session: its epochs are no longer open in the state file.

import CLibrary
package import CommandSupport
package import Control
package import HostSystem
import Keybag
import VolumeFormat

/// The epochs of a mount, and the state file that lists them, as the daemon has reported them before its end.
package struct MountSession {
    /// What a session that stays open means.
    package static let consequence =
        "The next mount reads as after a crash: damage in the files that this session wrote is not noticed until protectfs fsck --quick"

    private let stateFile: HostPath?
    private let epochs: [UInt32]

    /// Reads the daemon's report `info`.
    package init(_ info: JSONValue) {
        stateFile = info.path("stateFile")
        epochs = info["ownEpochs"]?.elements?.compactMap { $0.integer.flatMap { UInt32(exactly: $0) } } ?? []
    }

    /// The failure of an unmount whose daemon has ended and has not closed its session. Nil if it has, or nobody can tell: a
    /// state file that is gone lists nothing.
    package func failure(_ path: HostPath) -> CommandFailure? {
        guard let stateFile, !epochs.isEmpty, (try? FileStatus.read(stateFile)) != nil else { return nil }
        let said = "\(path): unmounted, but the session could not be closed in the state file \(stateFile)"
        do throws(SystemError) {
            let bytes = try readFile(stateFile, limit: StateFileLayout.maximumLength + 1)
            if let layout = try? StateFile(parsing: bytes).layout,
                !layout.openEpochs.contains(where: { epochs.contains($0) })
            {
                return nil
            }
        } catch {
            return .init(.failure, "\(said), which cannot be read: \(error.reason). \(Self.consequence)")
        }
        return .init(.failure, "\(said)\(reason(stateFile.parent)). \(Self.consequence)")
    }

    /// Why, if it can still be seen.
    private func reason(_ directory: HostPath) -> String {
        do throws(SystemError) { try FileStatus.requireAccess(directory, W_OK) } catch {
            return ": \(directory): \(error.reason)"
        }
        return ", or a file could not be written to its end; the system log says why (journalctl -t protectfs)"
    }
}
