// The report of `erase`: what was done to each file. It claims that nothing is left only if that was checked.

import BackingStore
import CommandSupport
import Control
import HostSystem
import KeyFiles
import ProtectedVolume
import VolumeFormat

extension EraseRun {
    struct Report {
        let target: Target
        /// Overwritten and removed.
        private(set) var destroyed: [HostPath] = []
        /// Files whose former bytes may still be on the disk, and whether they were keys.
        private var unproven: [(path: HostPath, doubt: OverwriteDoubt, holdsKeys: Bool)] = []
        /// Names that were only removed.
        private var removed: [(HostPath, String)] = []
        /// Files with keys that are left.
        private var left: [(HostPath, String)]
        /// Other files with the volume's UUID that are left.
        private var others: [(HostPath, String)]

        init(target: Target) {
            self.target = target
            left = target.spared
            others = target.keptStates
            removed = target.links.map { ($0, "removed; it was a symbolic link") }
        }

        mutating func note(_ path: HostPath, _ outcome: ErasureOutcome, holdsKeys: Bool) {
            switch outcome {
            case .missing: break
            case .removed: removed.append((path, "removed; it was a link or not a regular file"))
            case .destroyed(let doubt):
                destroyed.append(path)
                if let doubt { unproven.append((path, doubt, holdsKeys)) }
            case .unlinked(let inode):
                let name =
                    "removed, but not overwritten, because the file has another name (find -inum \(inode) shows it)"
                if holdsKeys { left.append((path, name + " and holds keys of the volume")) }
                removed.append((path, name))
            }
        }

        /// Notes every file with the volume's UUID that is left.
        mutating func note(left paths: [HostPath]) {
            for path in paths where !(left + others).contains(where: { $0.0 == path }) {
                others.append((path, "it is not known what it is"))
            }
        }

        /// Whether nothing of the volume is left, and all key bytes are gone from the disk, as far as that can be checked.
        private var isVerified: Bool {
            target.volume != nil && left.isEmpty && others.isEmpty && !unproven.contains { $0.holdsKeys }
        }

        static func list(_ paths: [HostPath]) -> String { paths.map(\.description).joined(separator: ", ") }

        /// Prints the report. A key that should have been destroyed and is left is a failure.
        func say(isJSON: Bool) -> ExitCode {
            let isWhole = left.count == target.spared.count
            let what = "\(target.path): \(destroyed.isEmpty ? "nothing" : Self.list(destroyed)) destroyed"
            let code = Output.done(
                what + (isVerified ? ", verified" : ", not verified"), isJSON ? json.line + "\n" : text,
                isWhole ? .success : .failure)
            for (path, reason) in left.dropFirst(target.spared.count) {
                Output.fail(.init(.failure, "\(path): \(reason)"))
            }
            return code
        }

        private var json: JSONValue {
            .fields([
                ("volume", .location(target.path)), ("uuid", .optional(target.volume.map { "\($0)" })),
                ("destroyed", .array(destroyed.map { .location($0) })),
                ("removed", .array(removed.map { .location($0.0) })),
                ("deviceKey", .optional(path: target.deviceKeys.first)),
                ("spared", .optional(path: target.spared.first?.0)),
                ("left", .array((left + others).map { .location($0.0) })),
                (
                    "unproven",
                    .array(
                        unproven.map {
                            .fields([
                                ("file", .location($0.path)), ("fileSystem", .string($0.doubt.fileSystem)),
                                ("reason", .string($0.doubt.reason.rawValue)),
                            ])
                        })
                ), ("verified", .bool(isVerified)),
            ])
        }

        private var text: String {
            var lines: [String] = []
            for path in destroyed {
                let doubt = unproven.first { $0.path == path }?.doubt
                let proof = doubt.map { "and removed, which proves nothing: \(Self.reason($0))" }
                lines.append("\(path): overwritten, \(proof ?? "read back from the disk, removed")")
            }
            for (path, what) in removed { lines.append("\(path): \(what)") }
            for (path, reason) in target.spared + others { lines.append("\(path): left alone: \(reason)") }
            if target.mayHaveDeviceKey, target.deviceKeys.isEmpty, target.spared.isEmpty {
                lines.append(
                    "No device key was found here. If there are copies of it elsewhere, destroy them yourself.")
            }
            lines.append(verdict)
            lines.append(
                "Solid-state disks, disk images and snapshots below the file system can keep old blocks of overwritten files. Copies and backups of the volume still open with its recovery code, a portable passphrase, or a copy of the device key."
            )
            return lines.map { Output.oneLine($0) + "\n" }.joined()
        }

        private var verdict: String {
            let files = "Its encrypted files are still there; remove them when you like."
            if isVerified { return "Verified: no key of \(target.path) is left here. \(files)" }
            if target.volume == nil {
                return
                    "Not verified: no keybag was left to name the volume, so protectfs cannot find its device key. Look for it in \(SystemPaths.data)."
            }
            if !left.isEmpty {
                return
                    "Not verified: \(Self.list(left.map(\.0))) may hold a key of \(target.path); destroy it yourself."
            }
            if !others.isEmpty {
                return
                    "Not verified: \(Self.list(others.map(\.0))) is left, with the UUID of \(target.path) in its name. \(files)"
            }
            return
                "Not verified: no file with a key of \(target.path) is left here, but the disk may still hold the old contents. \(files)"
        }

        /// The reason why overwriting proves nothing.
        static func reason(_ doubt: OverwriteDoubt) -> String {
            switch doubt.reason {
            case .copyOnWrite: "\(doubt.fileSystem) writes to new blocks and keeps the old ones"
            case .layered: "\(doubt.fileSystem) passes writes on to another file system"
            case .network: "\(doubt.fileSystem) stores files on another machine"
            case .memory: "\(doubt.fileSystem) is in memory, which may have been swapped out"
            case .journal: "\(doubt.fileSystem) with data=journal keeps contents in its journal"
            case .inline: "\(doubt.fileSystem) kept the file in its inode, and the journal has copies of that"
            case .shared: "a snapshot or clone on \(doubt.fileSystem) shares the blocks"
            case .moved: "\(doubt.fileSystem) wrote to other blocks"
            case .cache: "\(doubt.fileSystem) does not support direct reads, so the check may have read from memory"
            case .length: "only its beginning was overwritten, because it is longer than any key file"
            case .unknown: "it is not known how \(doubt.fileSystem) overwrites this file"
            }
        }
    }
}
