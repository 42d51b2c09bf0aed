// A directory's record that rmdir has set aside in the directory above, and a crash has left there.

package import BackingStore
package import HostSystem
package import VolumeFormat

/// A record that was found set aside. Its name tells to which directory it belongs, if one has it.
package struct RecordAside: Sendable {
    /// The limit in one directory. A crash leaves one, and each is compared with each directory beside it.
    static let most = 256
    /// The weight of those that are remembered of all directories.
    static let mostKept = 16_384

    /// Its name in the store.
    package let name: EntryName
    /// What it says.
    package let record: VerifiedRecord
    /// The target of its symlink.
    package let target: [UInt8]
}

extension NameCipher {
    /// Whether the record is that of the directory `name` in `parent`.
    package func isAside(_ aside: RecordAside, of name: EntryName, in parent: ObjectID) -> Bool {
        asideName(parent: parent, directory: aside.record.directoryID, name: name) == aside.name
    }

    /// The records set aside in a directory that verify, in the order of their names: the first of them.
    package func recordsAside(in directory: BackingDirectory) throws(Errno) -> [RecordAside] {
        var found: [EntryName] = []
        try directory.forEachEntry { entry in
            if ReservedName.kind(of: entry.name.bytes.span) == .aside { found.append(entry.name) }
            return true
        }
        found.sort { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        var asides: [RecordAside] = []
        for name in found where asides.count < RecordAside.most {
            guard let target = try? directory.readSymlink(name), let record = self.record(target: target) else {
                continue
            }
            asides.append(RecordAside(name: name, record: record, target: target))
        }
        return asides
    }
}
