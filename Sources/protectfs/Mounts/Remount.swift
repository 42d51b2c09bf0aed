// `protectfs mount -o remount,…`, for mount(8): changes the kernel's flags of a mount that exists.

import CLibrary
import CommandSupport
import Control
import FuseFrontend
import HostSystem
import MountDaemon

/// A change of the flags of a mount.
enum Remount {
    static func run(_ request: MountRequest) throws(CommandFailure) -> ExitCode {
        let path = request.mountPoint
        let entry = try MountLookup.at(path)
        if !request.isReadOnly {
            let client = try DaemonConnection.connect(entry, path)
            let status = try DaemonConnection.call(path) { () throws(ControlError) in try client.status() }
            guard !status.isReadOnly else {
                throw .init(
                    .failure,
                    "\(path): was mounted read-only, so its daemon writes nothing; unmount it and mount it again")
            }
        }
        // The kernel forgets each flag that is not given again.
        var words = Set(entry.options.split(separator: ",").map(String.init)).subtracting(["ro", "rw"])
        for word in request.options.kernelOptions {
            words.remove(word.hasPrefix("no") ? String(word.dropFirst(2)) : "no" + word)
            words.insert(word)
        }
        if request.isReadOnly { words.insert("ro") }
        do throws(SystemError) {
            try MountTable.remount(entry.mountPoint, words)
        } catch {
            let way = error.code == EBUSY ? "; close the files that are open for writing" : ""
            throw .init(error.code == EBUSY ? .busy : .failure, "\(path): cannot remount: \(error.reason)\(way)")
        }
        return .success
    }
}
