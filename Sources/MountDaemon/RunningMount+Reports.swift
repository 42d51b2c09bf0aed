// The daemon's reports about itself, and the change of a file's class.

import BackingStore
import CLibrary
import CommandSupport
import Control
internal import FileContents
import FuseFrontend
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension RunningMount {
    /// The report of `status`.
    func status() -> StatusReport {
        let statistics = frontend.statistics
        let delay = throttle.status
        var report = StatusReport()
        report.volume = source
        report.mountPoint = entry.mountPoint
        report.volumeID = "\(access.bag.volumeID)"
        report.state = volume.keys.state
        if report.state == .sweeping { report.sweepingFiles = statistics.sweepingFiles }
        report.inactiveState = volume.keys.state(of: .completeWhenUserInactive)
        report.inactiveLimit = Int64(clamping: request.options.inactiveSeconds)
        report.inactiveIn = statistics.inactiveSeconds.map { Int64(clamping: $0) }
        report.since = events.lastChange
        report.openHandles = statistics.openHandles
        report.defaultClass = volume.usualClass
        report.isReadOnly = volume.options.isReadOnly
        report.idleLimit = request.options.idleSeconds.map { Int64(clamping: $0) }
        report.idleFor = request.options.idleSeconds == nil ? nil : Int64(clamping: statistics.idleSeconds)
        report.unlockFailures = delay.failures
        report.retryAfter = Double(delay.remaining) / 1e9
        report.processID = getpid()
        report.transport = statistics.transport
        report.damage = damage.value
        report.older = volume.olderFiles
        return report
    }

    /// Facts that `status` does not report.
    func info() -> JSONValue {
        let epochs = volume.content.epochs
        return .fields([
            ("uuid", .string("\(access.bag.volumeID)")), ("cipher", .string(access.bag.suite.name)),
            ("stateFile", .optional(path: volume.options.isReadOnly ? nil : stateFile)),
            ("ownEpochs", .array(epochs.own.map { .integer(Int64($0)) })),
            ("epochsEndedBadly", .array(epochs.endedBadly.map { .integer(Int64($0)) })),
            ("knownNodes", .integer(Int64(frontend.statistics.knownNodes))),
            ("pageHolders", .integer(Int64(volume.nodesWithCachedPages.count))),
            ("lateRecords", .integer(Int64(volume.lateRecordCount))),
            ("workers", .integer(Int64(frontend.statistics.workers))),
        ])
    }

    /// The state file that lists this mount's epochs.
    private var stateFile: HostPath? {
        (try? access.found.place()).map { LocalFile.state(of: access.bag.volumeID, number: $0.number) }
    }

    /// Changes a file's class, with a new key or, as setxattr(2) does, with the same key.
    func changeClass(
        _ request: ClassRequest, by user: UInt32?, progress: (ClassProgress) -> Bool
    ) throws(CommandFailure) {
        // The daemon does not know the path that was typed.
        let path = point.path.appending(bytes: request.path)
        let components = request.path.split(separator: UInt8(ascii: "/")).map { Array($0) }
        do throws(VolumeError) {
            switch request.mode {
            case .wrapOnly: try frontend.changeClass(components, to: request.protectionClass, by: user)
            case .reencrypt:
                try frontend.reencrypt(components, to: request.protectionClass, by: user) { done, total in
                    progress(ClassProgress(done: done, total: total))
                }
            }
        } catch .refused(.EBUSY) {
            throw .init(.busy, "\(path): the file is open for writing; close it and try again, or use --wrap-only")
        } catch .refused(.EMLINK) {
            throw .init(.failure, "\(path): the file has several names (hard links); use --wrap-only")
        } catch .refused(.EINTR) {
            throw .init(.failure, "\(path): the class was not changed, because the mount is ending")
        } catch .refused(.ENOENT) {
            throw .init(.failure, "\(path): no such file")
        } catch .readOnly {
            throw .init(.failure, "\(path): the mount is read-only")
        } catch {
            throw ErrorMessages.volume(error, path)
        }
    }
}
