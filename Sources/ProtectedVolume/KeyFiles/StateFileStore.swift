// Reads and atomically replaces the state file beside the device key, under a lock file.

package import BackingStore
internal import HostSystem
package import Keybag
internal import SodiumKit
package import VolumeFormat

/// The file `UUID.state` or `UUID.N.state` in a directory outside of the volume. Safe for several threads and processes.
package final class StateFileStore: Sendable {
    let directory: BackingDirectory
    private let volumeID: VolumeID
    let stateName: EntryName
    private let lockName: EntryName
    /// The state file of the volume `volumeID` in `directory` (`…/protectfs`).
    ///
    /// - Parameter number: the number of the state file. Copies of a volume have their own, from 2 on.
    package init(directory: BackingDirectory, volumeID: VolumeID, number: Int = 1) {
        self.directory = directory
        self.volumeID = volumeID
        stateName = BackingName.known(Array(Self.fileName(volumeID, number).utf8))
        lockName = BackingName.known(Array("\(volumeID).lock".utf8))
    }

    /// The name of a state file; the first one has no number in it.
    package static func fileName(_ volumeID: VolumeID, _ number: Int) -> String {
        number == 1 ? "\(volumeID).state" : "\(volumeID).\(number).state"
    }

    /// The current state; nil if there is no file.
    /// - Throws: `.damaged(.state)` if it cannot be parsed or belongs to another volume.
    package func load() throws(VolumeError) -> StateFile? {
        let file: BackingFile
        do throws(Errno) {
            file = try directory.openFile(stateName, .readOnly)
        } catch {
            if error == .ENOENT { return nil }
            throw .store(error)
        }
        var bytes = [UInt8](repeating: 0, count: StateFileLayout.maximumLength + 1)
        var count = 0
        do throws(Errno) {
            var raw = bytes.mutableSpan
            count = try file.read(into: &raw, at: 0)
        } catch { throw .store(error) }
        guard let state = try? StateFile(parsing: Array(bytes.prefix(count))), state.layout.volumeID == volumeID else {
            throw .damaged(.state)
        }
        return state
    }

    /// Changes the state: reads, changes, writes a new file, syncs, renames and syncs the directory. Holds `UUID.lock`
    /// throughout.
    ///
    /// - Parameter change: gets nil when there is no file. If it leaves nil, nothing is written.
    @discardableResult
    package func update(_ change: (inout StateFile?) -> Void) throws(VolumeError) -> StateFile? {
        let lock = try lockFile()
        do throws(Errno) { try lock.lock(exclusive: true) } catch { throw .store(error) }
        var state = try load()
        change(&state)
        if let state { try write(state.serialized()) }
        _ = lock
        return state
    }

    /// Adds or removes epochs, durably. Does not create a missing state file: without one all crash damage is tolerated
    /// anyway.
    func record(_ change: EpochChange) throws(VolumeError) {
        try update { state in
            switch change {
            case .open(let epoch): state?.layout.openEpochs.append(epoch)
            case .close(let epochs): state?.layout.openEpochs.removeAll { epochs.contains($0) }
            }
        }
    }

    /// Ends the tolerance of crash damage in every file, after a complete check without errors.
    func endToleration() throws(VolumeError) {
        try update { $0?.layout.toleratesEverything = false }
    }

    private func lockFile() throws(VolumeError) -> BackingFile {
        do throws(Errno) {
            do throws(Errno) {
                return try directory.createFile(lockName, mode: 0o600)
            } catch {
                guard error == .EEXIST else { throw error }
                return try directory.openFile(lockName, .readWrite)
            }
        } catch { throw .store(error) }
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
        } catch { throw .store(error) }
    }
}
