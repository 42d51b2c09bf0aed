// The lock in the store of a file that other machines write, too (`-o shared`).

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Synchronization

extension VolumeError {
    /// Another machine holds the content of the file, and the caller was not to wait for it.
    package static let heldElsewhere = VolumeError.store(.EAGAIN)
}

extension ContentContext {
    /// How long an operation waits for a machine that holds the lock. A machine that died holds it until the store notices,
    /// which takes GlusterFS 42 s and NFS 90 s.
    private static let patience: UInt64 = 120_000_000_000
    /// The same if several threads wait already, so that one stuck machine does not stop the whole mount.
    private static let shortPatience: UInt64 = 2_000_000_000
    /// The number of threads that wait with patience.
    private static let mostPatient = 3

    /// Takes the store's lock of a file's content. The caller uses the handle alone.
    ///
    /// It asks again and again, because a call that waits could not be ended.
    /// - Throws: `.store(.ETIMEDOUT)` if another machine does not release it.
    func lock(_ file: BackingFile, exclusive: Bool) throws(VolumeError) {
        guard isShared else { return }
        try patiently { () throws(VolumeError) in try lockAtOnce(file, exclusive: exclusive) ? true : nil }
    }

    /// Takes the store's lock of a file's content unless another machine holds it. Returns whether it has it.
    func lockAtOnce(_ file: BackingFile, exclusive: Bool) throws(VolumeError) -> Bool {
        guard isShared else { return true }
        do throws(Errno) {
            try file.setLock(exclusive ? .exclusive : .shared, LockRange.content, waits: false)
        } catch {
            if error == .EAGAIN || error == .EACCES { return false }
            throw .store(error)
        }
        if cutNeedsSync { file.forgetCached() }
        return true
    }

    /// Repeats `attempt` until it has a result. It gives nil while another machine holds the lock that it needs.
    /// - Throws: `.store(.ETIMEDOUT)` if another machine does not release it.
    @discardableResult
    package func patiently<Result>(_ attempt: () throws(VolumeError) -> Result?) throws(VolumeError) -> Result {
        if let result = try attempt() { return result }
        let began = monotonicNanoseconds()
        var pause: UInt32 = 50
        storeWaits.add(1, ordering: .relaxed)
        defer { storeWaits.subtract(1, ordering: .relaxed) }
        while true {
            let waits = storeWaits.load(ordering: .relaxed)
            let limit = waits <= Self.mostPatient ? Self.patience : Self.shortPatience
            guard nanoseconds(from: began, to: monotonicNanoseconds()) < limit else { throw .store(.ETIMEDOUT) }
            sleep(microseconds: pause)
            pause = min(pause * 2, 2000)
            if let result = try attempt() { return result }
        }
    }

    /// Runs `body` while no other machine changes a file, whose handle nobody else uses.
    func locking<Result: ~Copyable>(
        _ file: BackingFile, exclusive: Bool = false, waits: Bool = true, _ body: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        if waits {
            try lock(file, exclusive: exclusive)
        } else if try !lockAtOnce(file, exclusive: exclusive) {
            throw .heldElsewhere
        }
        do throws(VolumeError) {
            let result = try body()
            unlock(file)
            return result
        } catch {
            unlock(file)
            throw error
        }
    }

    /// Releases it.
    func unlock(_ file: BackingFile) {
        guard isShared else { return }
        try? file.setLock(.none, LockRange.content, waits: false)
    }
}
