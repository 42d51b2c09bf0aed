// What a mounted volume knows of former class keys, for a rotation that looks through its store meanwhile.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
package import Keybag
internal import VolumeFormat

/// What needs former class keys although a look through the store may not show it.
package struct FormerKeyUse: Equatable, Sendable {
    /// The moves of headers so far (`KeyRing.quietMoves`). Nil while one runs.
    package var moves: UInt64?
    /// The former keys that open files need, those without a name too.
    package var keys: Set<FormerKey>
    /// Whether late records wait.
    package var hasLateRecords: Bool
}

extension Volume {
    /// What needs former keys now.
    package var formerKeyUse: FormerKeyUse {
        // Comes first: what begins after it is counted the next time.
        let moves = keys.quietMoves
        let former = keys.formerKeys
        var needed: Set<FormerKey> = []
        for node in opened.all {
            guard let header = content(of: node)?.header else { continue }
            let key = FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration)
            if former.contains(key) { needed.insert(key) }
        }
        return FormerKeyUse(moves: moves, keys: needed, hasLateRecords: late.owes || late.current != nil)
    }

    /// Runs the move of an entry in the store. It is counted if the entry is a file whose header may name a former key.
    func whileMovingFormer(
        _ name: EntryName, _ status: Status, in directory: BackingDirectory, _ body: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        guard status.kind == .regular else { return try body() }
        // If new keys come after the look at the former ones, `storing` counts the move.
        try keys.storing { () throws(VolumeError) in
            let former = keys.formerKeys
            guard !former.isEmpty else { return try body() }
            if let header = try? header(of: name, status, in: directory),
                !former.contains(FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration))
            {
                return try body()
            }
            try keys.movingHeaders(body)
        }
    }
}
