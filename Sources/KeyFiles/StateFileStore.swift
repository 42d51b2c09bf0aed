// Reads and atomically replaces the state file beside the device key, under a lock file.

package import BackingStore
internal import HostSystem
package import Keybag
internal import SodiumKit
package import VolumeFormat

/// The file `UUID.state` or `UUID.N.state` in a directory outside of the volume. Safe for several threads and processes.
package final class StateFileStore: Sendable {
    /// The directory of state files.
    package let directory: BackingDirectory
    let volumeID: VolumeID
    /// The file's name in the directory.
    package let name: String
    private let lockName: EntryName
    fileprivate let clock: @Sendable () -> Int64
    private var stateName: EntryName { BackingName.known(Array(name.utf8)) }

    /// The state file of the volume `volumeID` in `directory` (`…/protectfs`).
    ///
    /// - Parameters:
    ///   - number: the number of the state file. Copies of a volume have their own, from 2 on.
    ///   - clock: gives the seconds since 1970.
    package init(
        directory: BackingDirectory, volumeID: VolumeID, number: Int = 1,
        clock: @escaping @Sendable () -> Int64 = { WallClock.seconds }
    ) {
        self.directory = directory
        self.volumeID = volumeID
        name = Self.fileName(volumeID, number)
        lockName = BackingName.known(Array("\(volumeID).lock".utf8))
        self.clock = clock
    }

    /// The name of a state file; the first one has no number in it.
    package static func fileName(_ volumeID: VolumeID, _ number: Int) -> String {
        number == 1 ? "\(volumeID).state" : "\(volumeID).\(number).state"
    }

    /// The current state; nil if there is no file.
    ///
    /// - Throws: only `.stateFile`.
    package func load() throws(VolumeError) -> StateFile? {
        var bytes = [UInt8](repeating: 0, count: StateFileLayout.maximumLength + 1)
        var count = 0
        do throws(Errno) {
            let file = try directory.openFile(stateName, .readOnly)
            var raw = bytes.mutableSpan
            count = try file.read(into: &raw, at: 0)
        } catch {
            if error == .ENOENT { return nil }
            throw failure(.unreadable(error))
        }
        do throws(StateFileDefect) {
            return try StateFile(parsing: Array(bytes.prefix(count)), of: volumeID)
        } catch { throw failure(.unusable(error)) }
    }

    /// Changes the state: reads, changes, writes a new file, syncs, renames and syncs the directory. Holds `UUID.lock`
    /// throughout.
    ///
    /// - Parameter change: gets nil when there is no file. If it leaves nil, or throws, nothing is written.
    @discardableResult
    package func update(_ change: (inout StateFile?) throws(VolumeError) -> Void) throws(VolumeError) -> StateFile? {
        try locked { () throws(VolumeError) in
            var state = try load()
            let isNew = state == nil
            if let state, !state.isWritable { throw failure(.readOnly) }
            try change(&state)
            if let state {
                if isNew { removeSeenTable() }
                let bytes = state.serialized()
                guard bytes.count <= StateFileLayout.maximumLength else { throw failure(.full) }
                try write(bytes)
            }
            return state
        }
    }

    /// Ends the tolerance of crash damage in every file, after a complete check without errors.
    package func endToleration() throws(VolumeError) {
        try update { $0?.layout.toleratesEverything = false }
    }

    /// Renames the file, durably, so that the machine forgets what it says. The file is kept.
    ///
    /// - Parameter name: the new name, by the number of the attempt.
    /// - Returns: the new name. Nil if there is no file.
    package func setAside(_ name: (Int) -> String) throws(VolumeError) -> String? {
        try locked { () throws(VolumeError) in
            do throws(Errno) {
                for attempt in 1...1000 {
                    let new = name(attempt)
                    do throws(Errno) {
                        try directory.rename(
                            stateName, to: directory, BackingName.known(Array(new.utf8)), mode: .noReplace)
                        try directory.synchronize()
                        return new
                    } catch { if error != .EEXIST { throw error } }
                }
                throw .EEXIST
            } catch {
                if error == .ENOENT { return nil }
                throw failure(.unwritable(error))
            }
        }
    }

    /// Runs `body` while no one else changes a state file of this volume.
    func locked<Result>(_ body: () throws(VolumeError) -> Result) throws(VolumeError) -> Result {
        let lock: BackingFile
        do throws(Errno) {
            do throws(Errno) {
                lock = try directory.createFile(lockName, mode: 0o600)
            } catch {
                guard error == .EEXIST else { throw error }
                lock = try directory.openFile(lockName, .readWrite)
            }
            try lock.lock(exclusive: true)
        } catch { throw failure(.unwritable(error)) }
        defer { withExtendedLifetime(lock) {} }
        return try body()
    }

    private func write(_ bytes: [UInt8]) throws(VolumeError) {
        let temporary = BackingName.temporary()
        do throws(Errno) {
            let file = try directory.createFile(temporary, mode: 0o600)
            do throws(Errno) {
                try file.write(bytes.span, at: 0)
                try file.synchronize(dataOnly: false)
                try directory.rename(temporary, to: directory, stateName)
            } catch {
                try? directory.unlink(temporary)
                throw error
            }
            try directory.synchronize()
        } catch { throw failure(.unwritable(error)) }
    }

    func failure(_ reason: StateFileFailure.Reason) -> VolumeError {
        .stateFile(StateFileFailure(name: name, reason))
    }
}

// MARK: epochs

extension EpochRecord {
    /// The state file.
    ///
    /// - Parameter listsChanges: whether a list of changed files is kept beside it.
    package init(_ states: StateFileStore, listsChanges: Bool = false) {
        self.init { (highest) throws(VolumeError) in
            try states.drawEpoch(above: highest)
        } close: { (epochs) throws(VolumeError) in
            try states.closeEpochs(epochs)
            states.removeChangedLists()
        } list: { epoch in
            listsChanges ? states.makeChangedList(of: epoch) : nil
        } clock: {
            states.clock()
        }
    }
}

extension StateFileStore {
    /// Draws an epoch and records it durably as open, in one step: no other mount on this machine gets it. A missing state file
    /// is not created, because without one all crash damage is tolerated anyway.
    ///
    /// - Parameter highest: the highest epoch that the caller knows.
    fileprivate func drawEpoch(above highest: UInt32) throws(VolumeError) -> UInt32 {
        var drawn: UInt32?
        let now = clock()
        try update { (state) throws(VolumeError) in
            drawn =
                state == nil ? Epoch.next(after: highest, at: now) : state?.drawEpoch(above: highest, at: now)
            if drawn == nil { throw failure(.noEpochLeft) }
        }
        guard let drawn else { throw failure(.noEpochLeft) }
        return drawn
    }

    /// Removes epochs from the open ones, durably.
    fileprivate func closeEpochs(_ epochs: [UInt32]) throws(VolumeError) {
        try update { $0?.layout.openEpochs.removeAll { epochs.contains($0) } }
    }
}
