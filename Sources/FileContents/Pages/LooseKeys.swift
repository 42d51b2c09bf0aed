// The file keys that no open node has, so that a lock finds them: of copies that are being made, and of files that are being opened.

internal import HostSystem
package import VolumeFormat

/// How far the copy of a file has come.
package struct CopyProgress: Sendable {
    /// The bytes of the file that are done, holes among them.
    package let done: UInt64
    /// The bytes that were written to the copy. Holes need none.
    package let written: UInt64
    let keys: FileKeys

    /// Whether the copy has its key. After a lock that closes the class of the file or of the copy it has none, and ends with
    /// `.locked` when it needs it.
    package var hasKey: Bool { keys.isPresent }
}

/// The copy of a file that is being made under a new key.
final class FileCopy: Sendable {
    /// The content that is copied. Its class may change meanwhile.
    let source: FileContent
    /// The header of the copy, with its class.
    let header: FileHeader
    /// The keys of the copy. Once wiped they never come back.
    let keys: FileKeys

    init(of source: FileContent, _ file: consuming NewFile) {
        self.source = source
        header = file.header
        keys = FileKeys(file.takeKey(), suite: header.suite)
    }

    /// The class that keeps the copy from going on in `states`; nil if it may. A copy is no program that has the file open: it
    /// goes on while it could begin.
    func closedClass(in states: VolumeStates) -> ProtectionClass? {
        guard source.mayBeOpened(in: states) else { return source.protectionClass }
        let new = header.protectionClass
        return Access.isAllowed(.create, class: new, state: states[new]) ? nil : new
    }
}

/// The file keys of a mount that no open node has. Their owners may wait for the store, and a lock does not wait for them.
package final class LooseKeys: Sendable {
    private struct Owners {
        var copies: [FileCopy] = []
        var opening: [FileContent] = []
    }

    /// Lock order: inside the state lock of the `KeyRing`, around the small locks of `FileContent`.
    private let owners = Lock(Owners())

    /// The keys of all running copies.
    var ofCopies: [FileKeys] { owners.withLock { $0.copies.map(\.keys) } }
    /// The contents that are being opened.
    var opening: [FileContent] { owners.withLock { $0.opening } }

    /// Makes `copy` known. Call it before a test of the state that would have refused the copy after a lock.
    func begin(_ copy: FileCopy) { owners.withLock { $0.copies.append(copy) } }

    /// Wipes the keys of `copy`, which uses them no more.
    func end(_ copy: FileCopy) {
        owners.withLock { $0.copies.removeAll { $0 === copy } }
        copy.keys.wipe()
    }

    /// Makes a content known before its key is unwrapped.
    func begin(_ content: FileContent) { owners.withLock { $0.opening.append(content) } }

    /// Called when the content belongs to an open node, or is given up.
    package func end(_ content: FileContent) { owners.withLock { $0.opening.removeAll { $0 === content } } }

    /// Wipes the keys of files and copies that could not be opened or made once `closing` is closed: A with all that a lock of the
    /// volume closes, or 7. Runs under the exclusive side of the state lock, which nobody holds while waiting for the store.
    package func wipe(closing: ProtectionClass) {
        let isInactive = closing == .completeWhenUserInactive
        let states = VolumeStates(volume: isInactive ? .unlocked : .locked, inactive: isInactive ? .locked : .unlocked)
        owners.withLock { owners in
            for copy in owners.copies where copy.closedClass(in: states) != nil { copy.keys.wipe() }
            for content in owners.opening where !content.mayBeOpened(in: states) { content.wipeKeys() }
        }
    }
}
