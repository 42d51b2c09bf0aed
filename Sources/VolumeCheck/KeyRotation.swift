// Writes the files of a volume that is not mounted under the class keys in use.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles
package import Keybag
package import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

/// What a run of a rotation has done.
package struct RotationSummary: Sendable {
    /// Files written under a new file key.
    package var files: UInt64 = 0
    /// Files that could not be, each reported.
    package var failed: UInt64 = 0
    /// Whether it was interrupted.
    package var isInterrupted = false
}

/// How far a rotation has come.
package struct RotationProgress: Sendable {
    /// Files written under a new file key.
    package var files: UInt64 = 0
    /// The bytes of files that are done, holes among them.
    package var bytes: UInt64 = 0
    /// The bytes that were written. Holes need none.
    package var written: UInt64 = 0
}

/// A rotation of class keys, after the keybag has the new ones.
///
/// Each file gets a new file key as by `Volume.reencrypt`: the old version or the new one is there after a crash, both readable.
/// So a run may end anywhere, and the next one goes on with the files whose headers name a former generation.
package final class KeyRotation {
    private let volume: Volume
    private let advance: (RotationProgress) -> Bool
    private let report: ([UInt8], VolumeError) -> Void
    private var summary = RotationSummary()
    private var progress = RotationProgress()

    private init(
        _ volume: Volume, advance: @escaping (RotationProgress) -> Bool,
        report: @escaping ([UInt8], VolumeError) -> Void
    ) {
        self.volume = volume
        self.advance = advance
        self.report = report
    }

    /// Writes every file anew whose key is wrapped by a former class key. The caller has claimed `directory`.
    ///
    /// - Parameters:
    ///   - keys: the keys of an unlocked volume.
    ///   - states: the file that lists the open epochs.
    ///   - advance: is called often. It may wait, to bound the rate. Returns whether to go on.
    ///   - notice: is told of damage that is tolerated, as a mount tells it.
    ///   - report: gets the path of each file that could not be written, and the reason.
    package static func run(
        directory: BackingDirectory, keys: KeyRing, states: StateFileStore,
        advance: @escaping (RotationProgress) -> Bool,
        notice: @escaping @Sendable (VolumeNotice) -> Void,
        report: @escaping (_ path: [UInt8], VolumeError) -> Void
    ) throws(VolumeError) -> RotationSummary {
        let volume = try Volume(
            directory: directory, keys: keys, state: states, options: VolumeOptions(), report: notice)
        let rotation = KeyRotation(volume, advance: advance, report: report)
        rotation.rewriteAll()
        try volume.close()
        return rotation.summary
    }

    private func rewriteAll() {
        // Not one call for each level, because a stack has an end.
        var path: [UInt8] = []
        // Of each level: the names that were not visited, and the length of the path above.
        var levels = [(directory: volume.root, names: names(in: volume.root, path), length: 0)]
        while var level = levels.popLast() {
            guard !summary.isInterrupted, let name = level.names.popLast() else {
                if level.directory !== volume.root { volume.forget(level.directory, count: 1) }
                path.removeLast(path.count - level.length)
                continue
            }
            levels.append(level)
            guard advance(progress) else {
                summary.isInterrupted = true
                continue
            }
            let length = path.count
            path += (path.isEmpty ? [] : [UInt8(ascii: "/")]) + name
            do throws(VolumeError) {
                let node = try volume.lookup(name.span, in: level.directory).node
                if node.kind == .directory {
                    levels.append((node, names(in: node, path), length))
                    continue
                }
                defer { volume.forget(node, count: 1) }
                if node.kind == .file { try rewrite(node) }
            } catch {
                fail(path, error)
            }
            path.removeLast(path.count - length)
        }
    }

    /// All names of a directory, the last one first. The whole listing comes before the rewriting, which changes the directory.
    private func names(in directory: Node, _ path: [UInt8]) -> [[UInt8]] {
        var names: [[UInt8]] = []
        do throws(VolumeError) {
            try volume.list(directory, from: 0, attributes: .none) { entry in
                if entry.name != Array(".".utf8), entry.name != Array("..".utf8) { names.append(entry.name) }
                return true
            }
        } catch {
            fail(path, error)
        }
        return names.reversed()
    }

    private func rewrite(_ node: Node) throws(VolumeError) {
        guard let header = try volume.header(of: node) else { return }
        let protectionClass = header.protectionClass
        let inUse = volume.keys.withState { $0.generation(of: protectionClass) }
        guard header.keyGeneration != inUse else { return }
        let before = progress
        do throws(VolumeError) {
            try volume.reencrypt(node, to: protectionClass, explicit: false) { now in
                progress.bytes = before.bytes &+ now.done
                progress.written = before.written &+ now.written
                return advance(progress)
            }
        } catch .refused(.EINTR) {
            summary.isInterrupted = true
            return
        }
        progress.files += 1
        summary.files = progress.files
    }

    private func fail(_ path: [UInt8], _ error: VolumeError) {
        summary.failed += 1
        report(path, error)
    }
}
