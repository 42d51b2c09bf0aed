// The table of seen versions beside the state file: `UUID.seen`, or `UUID.N.seen`.

internal import BackingStore
internal import HostSystem

extension StateFileStore {
    private var seenName: EntryName {
        BackingName.known(Array(name.dropLast("state".count).utf8) + Array("seen".utf8))
    }

    /// The table of seen versions.
    ///
    /// - Parameters:
    ///   - isWritable: whether the volume is written. Only one mount or check at a time does that.
    ///   - isExpected: whether this machine has written the volume before.
    ///   - report: is told once of a fault, perhaps with locks held.
    package func seenVersions(
        isWritable: Bool, isExpected: Bool, report: @escaping @Sendable (SeenTableFault) -> Void = { _ in }
    ) -> SeenVersions {
        SeenVersions(
            in: directory, seenName, of: volumeID, isWritable: isWritable, isExpected: isExpected, report: report)
    }

    /// Removes the table, because a new state file begins. The table may be that of another store which had the number before.
    func removeSeenTable() {
        try? directory.unlink(seenName)
    }
}
