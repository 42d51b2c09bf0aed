// The lists of changed files beside the state file: `UUID.changed-EPOCH`, or `UUID.N.changed-EPOCH`.

internal import BackingStore
internal import HostSystem
internal import Keybag
internal import VolumeFormat

extension StateFileStore {
    /// The name of an epoch's list.
    private func changedName(_ epoch: UInt32) -> EntryName { BackingName.known(changedPrefix + Array("\(epoch)".utf8)) }

    private var changedPrefix: [UInt8] { Array(name.dropLast("state".count).utf8) + Array("changed-".utf8) }

    /// Makes an empty list for an epoch that was just drawn, durably. Removes lists of epochs that are no longer open.
    ///
    /// - Returns: nil if the file system does not take it. A check then looks at all files.
    func makeChangedList(of epoch: UInt32) -> ChangedListFile? {
        removeChangedLists()
        let name = changedName(epoch)
        // Files get the time of the last tick, so the first one may seem a little older.
        let began = Int64(clamping: WallClock.nanoseconds) - 50_000_000
        let header = ChangedListHeader(volume: volumeID, epoch: epoch, began: began)
        let list = ChangedList(header)
        do throws(Errno) {
            // One of this epoch can only be there if the state file went back.
            do throws(Errno) { try directory.unlink(name) } catch { if error != .ENOENT { throw error } }
            let file = try directory.createFile(name, mode: 0o600)
            do throws(Errno) {
                try file.write(list.emptyBytes.span, at: 0)
                try file.synchronize(dataOnly: false)
                try directory.synchronize()
            } catch {
                try? directory.unlink(name)
                throw error
            }
            return ChangedListFile(list: list, file: file) { [self] () throws(VolumeError) in
                do throws(Errno) {
                    do throws(Errno) { try directory.unlink(name) } catch { if error != .ENOENT { throw error } }
                    try directory.synchronize()
                } catch { throw failure(.unwritable(error)) }
            } failure: { [self] in
                failure(.unwritable($0))
            }
        } catch { return nil }
    }

    /// The list of an epoch. Nil if there is none that can be used.
    package func changedList(of epoch: UInt32) -> (ChangedList, Set<UInt64>)? {
        guard let file = try? directory.openFile(changedName(epoch), .readOnly) else { return nil }
        var bytes = [UInt8](repeating: 0, count: ChangedList.length + 1)
        var raw = bytes.mutableSpan
        guard let count = try? file.read(into: &raw, at: 0) else { return nil }
        return ChangedList.parse(Array(bytes.prefix(count)), volume: volumeID, epoch: epoch)
    }

    /// Removes the lists of epochs that are not open. One that remains is harmless, because no epoch is drawn twice.
    func removeChangedLists() {
        try? locked { () throws(VolumeError) in
            guard let open = try load()?.layout.openEpochs, let entries = try? directory.entries() else { return }
            let needed = Set(open.map { changedName($0) })
            for entry in entries where entry.name.bytes.starts(with: changedPrefix) && !needed.contains(entry.name) {
                try? directory.unlink(entry.name)
            }
        }
    }
}
