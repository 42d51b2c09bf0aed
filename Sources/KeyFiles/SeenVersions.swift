// The versions of files that this machine has seen. An older version that someone puts back is noticed by them.
//
// A version is in the table only after it is durable in the store, so that no crash makes a file older than the table says. What
// a mount has written itself is durable when its file was synced, or at the clean end of the mount; until then it waits in memory.

internal import BackingStore
package import HostSystem
package import VolumeFormat

/// What is wrong with a table of seen versions. What it said is learnt anew.
package enum SeenTableFault: Equatable, Sendable {
    /// There is none, although this machine has written the volume before.
    case missing
    /// A part of it, or all of it, cannot be used.
    case damaged
    /// It cannot be read or written.
    case failed(Errno)
}

/// The versions of the files of one store. Thread-safe. Its lock is held while it writes a few bytes to its file: no read or write
/// of a file's content takes it, except the first write that raises the file's version.
package final class SeenVersions: Sendable {
    private struct State {
        var table: SeenTable
        /// Versions that this mount has written, and that are not durable yet.
        var later = VersionMap()
        /// Whether the file can be appended to. It is not held open: a file system with a file that is open for writing cannot become
        /// read-only.
        var isUsable = false
        /// Entries that are not in the file yet.
        var waiting: [(key: UInt64, version: UInt32)] = []
        /// Whether the file says of a file more than is true, until the waiting entries are written.
        var owesLower = false
        /// Whether the file is given up. What this mount sees is still compared.
        var isLost = false
        var isTold = false

        /// The version that was seen last; 0 if none is known.
        func known(_ key: UInt64) -> UInt32 {
            let version = later[key]
            return version == 0 ? table.versions[key] : version
        }
    }

    /// Entries that are written together, and the most that wait for a disk that takes none.
    private static let (batch, mostWaiting) = (256, 4096)

    private let state: Lock<State>
    private let place: (directory: BackingDirectory, name: EntryName, volume: VolumeID)
    private let isWritable: Bool
    private let report: @Sendable (SeenTableFault) -> Void

    /// Reads a table.
    ///
    /// - Parameters:
    ///   - isWritable: whether the volume is written. If not, nothing is learnt.
    ///   - isExpected: whether this machine has written the volume before.
    ///   - report: is told once of a fault, perhaps with locks held.
    init(
        in directory: BackingDirectory, _ name: EntryName, of volume: VolumeID, isWritable: Bool, isExpected: Bool,
        report: @escaping @Sendable (SeenTableFault) -> Void
    ) {
        place = (directory, name, volume)
        self.isWritable = isWritable
        self.report = report
        var found = State(table: SeenTable())
        var fault: SeenTableFault?
        do throws(Errno) {
            let file = try directory.openFile(name, isWritable ? .readWrite : .readOnly)
            if let table = try Self.read(file, volume) { found.table = table } else { fault = .damaged }
            if found.table.isDamaged { fault = .damaged }
            // One with a torn end is written anew.
            found.isUsable = fault == nil && !found.table.isTorn
        } catch .ENOENT {
            if isExpected { fault = .missing }
        } catch {
            // It may be readable the next time, so it stays.
            found.isLost = true
            fault = .failed(error)
        }
        found.isTold = fault != nil
        state = Lock(found)
        if let fault { report(fault) }
    }

    private static func read(_ file: BackingFile, _ volume: VolumeID) throws(Errno) -> SeenTable? {
        let length = try file.status().size
        guard length <= UInt64(SeenTable.greatestLength) else { return nil }
        var table = SeenTable()
        table.reserve(length: length)
        var bytes = [UInt8](repeating: 0, count: 4096 * SeenTable.entryLength)
        let header = SeenTable.header(of: volume)
        var start = [UInt8](repeating: 0, count: header.count)
        var raw = start.mutableSpan
        guard try file.read(into: &raw, at: 0) == header.count, start == header else { return nil }
        var offset = UInt64(header.count)
        while true {
            var raw = bytes.mutableSpan
            let count = try file.read(into: &raw, at: offset)
            if count == 0 { return table }
            table.take(bytes.span.extracting(0..<count))
            offset += UInt64(count)
        }
    }

    /// The version that this machine has seen last. Nil if it knows none.
    package func version(of file: ObjectID) -> UInt32? {
        let key = SeenTable.key(of: file)
        let version = state.withLock { $0.known(key) }
        return version == 0 ? nil : version
    }

    /// Compares the version that was found in the store. What is not known, or later, is learnt.
    ///
    /// - Parameters:
    ///   - isSettled: whether the version is durable, as that of a session that was closed.
    ///   - toleratesOlder: whether a crash explains an older version.
    /// - Returns: the version that was seen, if the one found is older.
    package func compare(
        _ file: ObjectID, _ version: UInt32, isSettled: Bool, toleratesOlder: Bool
    ) -> UInt32? {
        let key = SeenTable.key(of: file)
        return state.withLock { state in
            let seen = state.known(key)
            if version < seen {
                guard toleratesOlder else { return seen }
                state.later[key] = 0
                note(key, 0, &state)
            } else if version > seen, isSettled {
                note(key, version, &state)
            }
            return nil
        }
    }

    /// This mount has written a version that is not durable yet.
    package func wrote(_ file: ObjectID, _ version: UInt32) {
        let key = SeenTable.key(of: file)
        state.withLock { state in
            guard isWritable, state.later.count < SeenTable.most else { return }
            state.later[key] = version
        }
    }

    /// A version that this mount has written is durable.
    package func synced(_ file: ObjectID, _ version: UInt32) {
        let key = SeenTable.key(of: file)
        state.withLock { state in
            let later = state.later[key]
            guard later != 0, later <= version else { return }
            state.later[key] = 0
            note(key, version, &state)
            write(&state)
        }
    }

    /// Forgets a file: it was removed, or its end could not be written.
    package func forget(_ file: ObjectID) {
        let key = SeenTable.key(of: file)
        state.withLock { state in
            state.later[key] = 0
            note(key, 0, &state)
        }
    }

    /// Forgets a file, or all of them, durably: a person accepts what is there.
    package func accept(_ file: ObjectID?) throws(Errno) {
        try state.withLock { (state) throws(Errno) in
            guard isWritable else { throw .EROFS }
            if let file {
                let key = SeenTable.key(of: file)
                state.later[key] = 0
                note(key, 0, &state)
            } else {
                (state.table, state.later, state.waiting, state.isUsable) = (SeenTable(), VersionMap(), [], false)
                state.isLost = false
            }
            if state.isLost { throw .EIO }
            if let error = write(&state, durably: true) { throw error }
        }
    }

    /// Whether nothing is known.
    package var isEmpty: Bool { state.withLock { $0.table.versions.count + $0.later.count == 0 } }

    /// Writes all that is known, durably. Call it when everything that this mount has written is durable in the store, and before
    /// its epoch is closed.
    package func settle() {
        state.withLock { state in
            guard isWritable, !state.isLost else { return }
            let later = state.later
            state.later = VersionMap()
            if state.table.isWasteful(with: later.count) {
                later.forEach { _ = change($0, $1, &state) }
                state.isUsable = false
            } else {
                later.forEach { note($0, $1, &state) }
            }
            // A file is made even for an empty table, so that one that is lost is missed.
            if let error = write(&state, durably: true) { failed(error, &state) }
        }
    }

    /// - Returns: whether the file is to say it.
    private func change(_ key: UInt64, _ version: UInt32, _ state: inout State) -> Bool {
        let before = state.table.versions[key]
        guard isWritable, before != version, state.table.set(key, version), !state.isLost else { return false }
        if version < before { state.owesLower = true }
        return true
    }

    private func note(_ key: UInt64, _ version: UInt32, _ state: inout State) {
        guard change(key, version, &state) else { return }
        state.waiting.append((key, version))
        guard state.waiting.count.isMultiple(of: Self.batch), let error = write(&state) else { return }
        if state.waiting.count >= Self.mostWaiting { failed(error, &state) }
    }

    // MARK: the file

    /// Writes what waits. A disk that takes nothing stops no one: what waits is tried again, and dropped if it becomes too much.
    @discardableResult
    private func write(_ state: inout State, durably: Bool = false) -> Errno? {
        guard !state.isLost else { return nil }
        do throws(Errno) {
            if !state.isUsable {
                try writeAnew(state.table)
                state.isUsable = true
                state.table.wroteAnew()
            } else if durably || !state.waiting.isEmpty {
                let file = try place.directory.openFile(place.name, .readWrite)
                var bytes: [UInt8] = []
                for (position, entry) in state.waiting.enumerated() {
                    SeenTable.append(entry.key, entry.version, index: state.table.entries + position, to: &bytes)
                }
                let end = SeenTable.headerLength + state.table.entries * SeenTable.entryLength
                if !bytes.isEmpty { try file.write(bytes.span, at: UInt64(end)) }
                if durably { try file.synchronize(dataOnly: true) }
                state.table.appended(state.waiting.count)
            }
            state.waiting = []
            state.owesLower = false
            return nil
        } catch { return error }
    }

    private func writeAnew(_ table: SeenTable) throws(Errno) {
        let temporary = BackingName.temporary()
        let file = try place.directory.createFile(temporary, mode: 0o600)
        do throws(Errno) {
            var bytes = SeenTable.header(of: place.volume)
            var offset: UInt64 = 0
            var index = 0
            try table.versions.forEach { (key, version) throws(Errno) in
                SeenTable.append(key, version, index: index, to: &bytes)
                index += 1
                guard bytes.count >= 1 << 16 else { return }
                try file.write(bytes.span, at: offset)
                offset += UInt64(bytes.count)
                bytes.removeAll(keepingCapacity: true)
            }
            if !bytes.isEmpty { try file.write(bytes.span, at: offset) }
            try file.synchronize(dataOnly: false)
            try place.directory.rename(temporary, to: place.directory, place.name)
        } catch {
            try? place.directory.unlink(temporary)
            throw error
        }
        try? place.directory.synchronize()
    }

    /// Gives the file up until the next mount. What it says stays true, unless an entry that lowers a version could not be written.
    private func failed(_ error: Errno, _ state: inout State) {
        state.isLost = true
        state.isUsable = false
        state.waiting = []
        if state.owesLower { remove(&state) }
        guard !state.isTold else { return }
        state.isTold = true
        report(.failed(error))
    }

    private func remove(_ state: inout State) {
        try? place.directory.unlink(place.name)
        try? place.directory.synchronize()
        state.owesLower = false
    }
}
