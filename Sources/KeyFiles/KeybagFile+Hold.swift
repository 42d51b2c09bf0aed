// Keeps changes of one keybag apart that do not see each other's lock: those of several machines, and of several users.

internal import BackingStore
internal import HostSystem

extension KeybagFile {
    /// The right to change the keybag, or to destroy what a change has left, while it lives.
    ///
    /// It is a lock in the store (`LockRange.content`) on the current keybag, and on the one that will be current, so that there
    /// is no moment between the two. A store without locks gives the right to everyone.
    struct Hold: ~Copyable {
        private var files: [BackingFile] = []

        /// Holds another keybag, too: the one that is about to get the name of the current one.
        mutating func add(_ file: BackingFile) {
            try? file.setLock(.exclusive, LockRange.content, waits: false)
            files.append(file)
        }

        fileprivate mutating func keep(_ file: BackingFile) { files.append(file) }
    }

    /// The number of times that `hold` looks again, with pauses of 50 ms.
    private static let patience = 200

    /// Waits until no one else holds the keybag. There is nothing to hold if it is missing, or cannot be opened for writing.
    ///
    /// - Parameter waits: whether to wait; at most ten seconds.
    /// - Throws: EBUSY if another one holds it.
    static func hold(in root: BackingDirectory, waits: Bool) throws(Errno) -> Hold {
        var hold = Hold()
        for attempt in 0...patience {
            guard let file = try? root.openFile(current, .readWrite), let own = try? file.status() else { return hold }
            do throws(Errno) {
                try file.setLock(.exclusive, LockRange.content, waits: false)
                // The one that held it may have replaced it.
                let now = try? root.status(of: current)
                if now?.inode == own.inode, now?.device == own.device {
                    hold.keep(file)
                    return hold
                }
            } catch {
                guard error == .EAGAIN || error == .EACCES else { return hold }
                if !waits { throw .EBUSY }
            }
            if attempt < patience { sleep(milliseconds: 50) }
        }
        throw .EBUSY
    }
}
