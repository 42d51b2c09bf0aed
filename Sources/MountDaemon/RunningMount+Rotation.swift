// The daemon's part of a change of class keys: it gives files new keys, and says what needs former keys.

import BackingStore
import CLibrary
package import CommandSupport
package import Control
import FileContents
package import FuseFrontend
package import HostSystem
import KeyFiles
import Keybag
package import ProtectedVolume
import VolumeAccess
import VolumeCheck
import VolumeFormat

extension RunningMount {
    /// What needs former class keys beyond the store.
    func formerKeys() throws(CommandFailure) -> FormerKeysReport {
        try requireRotatable()
        // Where syncfs(2) syncs nothing, only this mount knows what it has changed.
        do throws(VolumeError) { try volume.synchronizeChanges() } catch {
            throw ErrorMessages.volume(error, entry.source)
        }
        let use = volume.formerKeyUse
        return FormerKeysReport(moves: use.moves, keys: use.keys, hasLateRecords: use.hasLateRecords)
    }

    private func requireRotatable() throws(CommandFailure) {
        if volume.options.isShared {
            throw .init(
                .unsupported,
                "\(request.mountPoint): the volume is mounted with -o shared, so other machines may write with the former keys; unmount it everywhere, and run protectfs keys rotate then"
            )
        }
        if volume.options.isReadOnly {
            throw .init(
                .unsupported,
                "\(request.mountPoint): the volume is mounted read-only; mount it for writing, or unmount it")
        }
    }

    /// Gives the file at a path of the store a new key, if a former class key wraps its key.
    func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(CommandFailure) -> RenewalReport {
        try requireRotatable()
        return try FileRenewal.run(
            request, in: volume, frontend, shown: { _ in entry.source.appending(bytes: request.path) },
            progress: progress)
    }
}

/// A new key for one file of an open volume.
package enum FileRenewal {
    /// Gives the file at a path of the store a new key, if a former class key wraps its key. Removes a copy that a killed rewriting
    /// has left.
    ///
    /// - Parameters:
    ///   - frontend: that of the volume's mount. Nil if it is not mounted.
    ///   - shown: names the file in messages. It gets the path on the mount, which is empty if nothing is known of it.
    ///   - progress: says whether to go on.
    package static func run(
        _ request: RenewalRequest, in volume: Volume, _ frontend: Frontend?, shown: ([[UInt8]]) -> HostPath,
        progress: (ClassProgress) -> Bool
    ) throws(CommandFailure) -> RenewalReport {
        let entries = HostPath(bytes: request.path).components.compactMap { EntryName($0) }
        let pace = Pace(request.rate)
        var path: [[UInt8]] = []
        var size: UInt64 = 0
        do throws(VolumeError) {
            if let name = entries.last, ReservedName.kind(of: name.bytes.span) == .temporary {
                return RenewalReport(isRenewed: try Leftovers.remove(entries, from: volume), bytes: 0)
            }
            guard case .success(let place) = try NamedPlace.find(backing: entries, in: volume) else {
                throw .notSupported
            }
            path = place.visible
            let advance = { (copy: CopyProgress, total: UInt64) in
                size = copy.done
                var goesOn = progress(ClassProgress(done: copy.done, total: total))
                pace.wait(at: copy.written) {
                    goesOn = progress(ClassProgress(done: copy.done, total: total))
                    // After a lock the copy has nothing to wait for: it ends itself.
                    return goesOn && copy.hasKey
                }
                return goesOn
            }
            let isRenewed =
                switch frontend {
                case .some(let frontend): try frontend.renewKey(path, progress: advance)
                case .none: try volume.renewKey(at: path, progress: advance)
                }
            return RenewalReport(isRenewed: isRenewed, bytes: isRenewed ? size : 0)
        } catch .refused(.ENOENT), .store(.ENOENT), .noEntry, .stale {
            return RenewalReport(isRenewed: false, bytes: 0)
        } catch .refused(.EBUSY) {
            throw .init(.busy, "\(shown(path)): the file is open for writing")
        } catch .refused(.EMLINK) {
            throw .init(.failure, "\(shown(path)): the file has several names (hard links), and is not written anew")
        } catch .refused(.EINTR) {
            throw .init(.notMounted, "\(shown(path)): the mount is ending")
        } catch {
            throw ErrorMessages.volume(error, shown(path))
        }
    }
}

/// Bounds the bytes written each second.
private final class Pace {
    private let rate: UInt64?
    private let start = monotonicNanoseconds()

    /// - Parameter rate: bytes each second; nil for no bound.
    init(_ rate: UInt64?) { self.rate = rate }

    /// Waits until `bytes` since the start are within the rate, or `goesOn` says no.
    func wait(at bytes: UInt64, goesOn: () -> Bool) {
        guard let rate else { return }
        // At a low rate a long file may take more nanoseconds than a number has room for.
        let pause = UInt64(exactly: (Double(bytes) / Double(rate) * 1e9).rounded()) ?? .max
        let due = start.addingReportingOverflow(pause)
        while due.overflow || monotonicNanoseconds() < due.partialValue, goesOn() { usleep(10_000) }
    }
}
