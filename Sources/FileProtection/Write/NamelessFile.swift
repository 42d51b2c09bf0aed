// Writes a file that has no name until it is whole (O_TMPFILE). This is the usual way to write a file with a class: it
// makes no directory, and a program that is killed leaves nothing.

import CLibrary
import CLinuxShim

/// A file without a name, in the directory of its target.
///
/// It gets its class while it is empty, and with it a new key. A new target is its first name. To replace a file it
/// gets the name of the staging directory first, for the moment until the rename. All that time the write has a
/// `StagingTurn`, so that no other write gives the name to its own file or takes it away.
struct NamelessFile: ~Copyable {
    private let directory: Int32
    /// The file, open for reading and writing.
    let descriptor: Int32
    private let target: [CChar]
    private let replaces: Bool

    /// Makes the file with a class. Nil if this cannot be done here: the file system has no such files, the class of
    /// the directory is closed, another write has the name, or the class is refused. `Staging` then does it, or says why
    /// it cannot.
    ///
    /// - Parameters:
    ///   - mount: the mount that the path was on.
    ///   - replaces: whether a file has the name of the target.
    init?(for path: String, on mount: ProtectedMount, class type: FileProtectionType, mode: mode_t, replaces: Bool) {
        guard let (parent, name) = ProtectedMount.split(path) else { return nil }
        let directory = unsafe open(parent, pfs_O_PATH | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { return nil }
        let descriptor = NamelessFile.make(in: directory, on: mount, type, mode, replaces: replaces)
        guard descriptor >= 0 else {
            close(directory)
            return nil
        }
        (self.directory, self.descriptor) = (directory, descriptor)
        target = Array(name.utf8CString)
        self.replaces = replaces
    }

    deinit {
        close(descriptor)
        close(directory)
    }

    /// Gives the file the name of its target.
    ///
    /// - Returns: false if that cannot be done in this way, for example because another write has the name that is needed
    ///   for a moment. Nothing is changed then.
    func commit(replacing: Bool) throws(ProtectionSystemError) -> Bool {
        if !replaces {
            if link(to: target) { return true }
            guard errno == EEXIST else { return false }
            guard replacing else { throw .last("link") }
        }
        // Those who cannot have the turn see by this lock that the name is in use. The kernel releases both if this
        // program dies.
        guard let turn = StagingTurn(in: directory, attempts: 50) else { return false }
        defer { turn.end() }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { return false }
        let name = Array(Staging.name.utf8CString)
        guard linkForAMoment(to: name) else { return false }
        guard unsafe renameat(directory, name, directory, target) == 0 else {
            let code = errno
            if code == ENOENT { return false }
            unsafe unlinkat(directory, name, 0)
            throw ProtectionSystemError(code: code, call: "rename")
        }
        return true
    }

    /// Removes what a killed program left, and waits a little for a write on another machine. Called with the turn.
    private func linkForAMoment(to name: [CChar]) -> Bool {
        for _ in 0..<50 {
            if link(to: name) { return true }
            guard errno == EEXIST else { return false }
            switch Staging.removeLeft(in: directory) {
            case .removed: break
            case .inUse: usleep(200)
            default: return false
            }
        }
        return false
    }

    private func link(to name: [CChar]) -> Bool {
        unsafe linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", directory, name, AT_SYMLINK_FOLLOW) == 0
    }

    private static func make(
        in directory: Int32, on mount: ProtectedMount, _ type: FileProtectionType, _ mode: mode_t, replaces: Bool
    ) -> Int32 {
        var status = stat()
        // A mount that has ended since leaves a directory of another device.
        guard unsafe fstat(directory, &status) == 0,
            mount.has(status.st_dev) || ProtectedMount.of(status.st_dev) != nil,
            replaces || Staging.isClear(directory)
        else { return -1 }
        let file = unsafe openat(directory, ".", O_RDWR | O_CLOEXEC | pfs_O_TMPFILE, mode)
        guard file >= 0 else { return -1 }
        var made = stat()
        guard unsafe fstat(file, &made) == 0, made.st_dev == status.st_dev,
            (try? ProtectionAttribute.set(type, file)) != nil
        else {
            close(file)
            return -1
        }
        return file
    }
}

extension Staging {
    /// Whether nothing has the staging directory's name in a directory. Removes a file that a killed program left there.
    static func isClear(_ directory: Int32) -> Bool {
        while unsafe faccessat(directory, name, F_OK, pfs_AT_SYMLINK_NOFOLLOW) == 0 {
            guard removeFile(in: directory) == .removed else { return false }
        }
        return errno == ENOENT
    }

    /// What had the staging directory's name.
    enum Found {
        case directory
        /// A link, or a file of another user.
        case other
        /// A file that a live write is about to rename.
        case inUse
        /// A file that cannot be opened now, while another program has locked the directory.
        case unknown
        /// A file that a killed program left, or nothing any more.
        case removed
    }

    /// Removes a file with the staging directory's name if the program that made it is dead.
    static func removeFile(in directory: Int32) -> Found {
        if let turn = StagingTurn(in: directory, attempts: 1) {
            defer { turn.end() }
            return removeLeft(in: directory)
        }
        // A live write has the turn, or a program has locked the directory for a reason of its own, or this one may not
        // read the directory. The lock of the file tells.
        guard let status = status(in: directory) else { return errno == ENOENT ? .removed : .other }
        guard isOwnFile(status) else { return status.st_mode & S_IFMT == S_IFDIR ? .directory : .other }
        let file = unsafe openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | pfs_O_NOFOLLOW)
        guard file >= 0 else { return errno == EACCES ? .unknown : errno == ENOENT ? .removed : .other }
        defer { close(file) }
        guard flock(file, LOCK_EX | LOCK_NB) == 0 else { return .inUse }
        // Since it was opened, its write may have renamed it, and another one may have made a new file.
        var own = stat()
        guard unsafe fstat(file, &own) == 0, let now = self.status(in: directory), own.st_ino == now.st_ino else {
            return .removed
        }
        // If another write gets the turn now, it may lose its name here. It begins again then.
        unsafe unlinkat(directory, name, 0)
        return .removed
    }

    /// Removes a file with the staging directory's name. Called with the turn, so its program is dead, unless it runs on another
    /// machine that shares the volume: that is told by the file's lock. A file of a closed class cannot be asked for it.
    fileprivate static func removeLeft(in directory: Int32) -> Found {
        guard let status = status(in: directory) else { return errno == ENOENT ? .removed : .other }
        guard isOwnFile(status) else { return status.st_mode & S_IFMT == S_IFDIR ? .directory : .other }
        let file = unsafe openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | pfs_O_NOFOLLOW)
        defer { if file >= 0 { close(file) } }
        if file >= 0, flock(file, LOCK_EX | LOCK_NB) != 0 { return .inUse }
        unsafe unlinkat(directory, name, 0)
        return .removed
    }

    private static func status(in directory: Int32) -> stat? {
        var status = stat()
        return unsafe fstatat(directory, name, &status, pfs_AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
    }

    private static func isOwnFile(_ status: stat) -> Bool {
        status.st_mode & S_IFMT == S_IFREG && status.st_uid == geteuid()
    }
}

/// The right to give a file of a directory the staging directory's name, and to take it away. One write at a time has it.
///
/// It is a lock (flock(2)) on the directory, because a file of a closed class cannot be opened and so not be locked. The
/// kernel releases it if the program dies.
private struct StagingTurn {
    private let descriptor: Int32

    /// Nil if the directory cannot be read or remains locked. Tries again after 0.2 ms.
    init?(in directory: Int32, attempts: Int) {
        descriptor = unsafe openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        for attempt in 1...attempts {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return }
            if attempt < attempts { usleep(200) }
        }
        close(descriptor)
        return nil
    }

    /// Ends it also for a child that was forked meanwhile.
    func end() {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
