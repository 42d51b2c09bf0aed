// Changes of names whose reply may be lost: a network or FUSE store can do a call and answer it with an error.
//
// Each call here looks at what is there before it believes the error. It removes nothing that another program may have made.

internal import BackingStore
internal import HostSystem
internal import KeyFiles

extension BackingDirectory {
    // MARK: names that nobody else uses

    /// Makes a file under a name that nobody else uses, such as a random one. What is there after an error is therefore this file.
    func createOwnFile(_ name: EntryName, mode: UInt32) throws(Errno) -> BackingFile {
        do throws(Errno) { return try createFile(name, mode: mode) } catch {
            if let made = try? openFile(name, .readWrite), let status = try? made.status(), status.size == 0,
                status.links == 1
            {
                return made
            }
            throw error
        }
    }

    /// Makes a directory under a name that nobody else uses.
    func createOwnDirectory(_ name: EntryName, mode: UInt32) throws(Errno) {
        do throws(Errno) { try createDirectory(name, mode: mode) } catch {
            guard (try? openDirectory(name).entries().isEmpty) == true else { throw error }
        }
    }

    /// Gives an object its name in place of a name that nobody else uses.
    ///
    /// - Parameter isThere: whether this very object has the name now. That the former name is gone proves nothing: a program that
    ///   removes leftovers may have come first.
    func placing(
        _ temporary: EntryName, at name: EntryName, mode: RenameMode = .replace, isThere: () -> Bool
    ) throws(Errno) {
        do throws(Errno) { try rename(temporary, to: self, name, mode: mode) } catch {
            guard isThere() else { throw error }
        }
    }

    // MARK: other names

    /// Makes a symbolic link. A link with this target that is there after an error was made by the call, since the name was free.
    func createLink(_ name: EntryName, target: [UInt8]) throws(Errno) {
        do throws(Errno) { try createSymlink(name, target: target) } catch {
            guard error != .EEXIST, (try? readSymlink(name)) == target else { throw error }
        }
    }

    /// Runs `link`, which gives the object of `status` the free name `name` here.
    func linking(_ name: EntryName, to status: Status, _ link: () throws(Errno) -> Void) throws(Errno) {
        do throws(Errno) { try link() } catch {
            guard error != .EEXIST, isObject(name, status) else { throw error }
        }
    }

    /// Renames the object of `status`.
    func rename(
        _ name: EntryName, of status: Status, to directory: BackingDirectory, _ newName: EntryName, mode: RenameMode
    ) throws(Errno) {
        do throws(Errno) { try rename(name, to: directory, newName, mode: mode) } catch {
            let isLeft = isGone(name) || mode != .replace && mode != .noReplace && !isObject(name, status)
            guard isLeft, directory.isObject(newName, status) else { throw error }
        }
    }

    /// Runs `remove`, which removes `name`.
    func removing(_ name: EntryName, _ remove: () throws(Errno) -> Void) throws(Errno) {
        do throws(Errno) { try remove() } catch {
            guard error != .ENOENT, isGone(name) else { throw error }
        }
    }

    /// Runs `create`, which makes an empty object of this kind under a free name that others may use as well. After an error, removes
    /// the object if `create` has made it.
    ///
    /// - Parameter uncertain: called if an object may be left.
    func creating<Result>(
        _ name: EntryName, _ kind: FileKind, _ create: () throws(Errno) -> Result, uncertain: () -> Void
    ) throws(Errno) -> Result {
        let start = monotonicNanoseconds()
        do throws(Errno) { return try create() } catch {
            let elapsed = Int64(clamping: nanoseconds(from: start, to: monotonicNanoseconds()))
            if error != .EEXIST, !removeRemains(name, kind, madeWithin: elapsed) { uncertain() }
            throw error
        }
    }

    /// - Returns: whether it is certain that the call that failed has left nothing.
    private func removeRemains(_ name: EntryName, _ kind: FileKind, madeWithin elapsed: Int64) -> Bool {
        let status: Status
        do throws(Errno) { status = try self.status(of: name) } catch { return error == .ENOENT }
        // Another program's file of this name has content, or is older than the call by the store's own clock.
        guard status.kind == kind, status.size == 0, status.links == 1, let now = storeTime() else {
            return false
        }
        let age = now.nanosecondsSince1970.subtractingReportingOverflow(status.changed.nanosecondsSince1970)
        guard !age.overflow, age.partialValue <= elapsed + Self.timeStep else { return false }
        try? unlink(name)
        return isGone(name)
    }

    /// The step of the coarsest clock of a file system, FAT's.
    private static var timeStep: Int64 { 2_000_000_000 }

    /// What the store's clock says now: the time of a file that is made for it.
    private func storeTime() -> Timestamp? {
        let name = BackingName.temporary()
        guard let file = try? createOwnFile(name, mode: 0o600) else { return nil }
        defer { try? unlink(name) }
        return (try? file.status())?.changed
    }

    /// Whether it is certain that nothing has this name.
    func isGone(_ name: EntryName) -> Bool {
        do throws(Errno) {
            _ = try status(of: name)
            return false
        } catch { return error == .ENOENT }
    }

    /// Whether `name` is the object of `status` now.
    func isObject(_ name: EntryName, _ status: Status) -> Bool {
        guard let there = try? self.status(of: name) else { return false }
        return there.inode == status.inode && there.device == status.device
    }
}
