// Locks on files of the host that belong to an open file description (fcntl(2), "open file description locks").

import CLibrary
import CLinuxShim
internal import HostSystem

extension HostFile {
    func setHostLock(_ kind: StoreLock, _ range: ClosedRange<UInt64>, waits: Bool) throws(Errno) {
        let result = pfs_set_lock(host.number, kind.rawValue, range.lowerBound, range.upperBound, waits ? 1 : 0)
        if result < 0 { throw Errno(rawValue: -result) }
    }

    func hostLock(against kind: StoreLock, _ range: ClosedRange<UInt64>) throws(Errno) -> ForeignLock? {
        var (found, first, last) = (kind.rawValue, range.lowerBound, range.upperBound)
        let result = unsafe pfs_find_lock(host.number, &found, &first, &last)
        if result < 0 { throw Errno(rawValue: -result) }
        guard let kind = StoreLock(rawValue: found), kind != .none, first <= last else { return nil }
        return ForeignLock(kind: kind, range: first...last)
    }
}
