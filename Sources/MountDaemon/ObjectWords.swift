// The words for kinds of objects in a store, and for the format's own objects.

package import ProtectedVolume
package import VolumeFormat

/// Names what is in a store.
package enum ObjectWords {
    /// The stable word of a kind.
    package static func word(_ kind: NodeKind) -> String {
        switch kind {
        case .directory: "directory"
        case .file: "file"
        case .symlink: "symlink"
        case .fifo: "fifo"
        case .socket: "socket"
        case .characterDevice: "characterDevice"
        case .blockDevice: "blockDevice"
        }
    }

    /// The kind for a person.
    package static func name(_ kind: NodeKind) -> String {
        switch kind {
        case .directory: "directory"
        case .file: "regular file"
        case .symlink: "symbolic link"
        case .fifo: "FIFO"
        case .socket: "socket"
        case .characterDevice: "character device"
        case .blockDevice: "block device"
        }
    }

    /// What a reserved object is, and where to see more. Nil for names that are not reserved.
    package static func reserved(_ kind: ReservedName.Kind) -> (word: String, what: String, more: String)? {
        switch kind {
        case .keybag: ("keybag", "the volume's keybag", "protectfs info shows it")
        case .record: ("record", "the record of its directory", "protectfs inspect of that directory shows it")
        case .temporary: ("temporary", "an object that was being made", "it is ignored")
        case .aside: ("aside", "a directory's record that was set aside", "the next mount puts it back or removes it")
        case .late: ("late", "writes that came after a lock", "protectfs fsck shows and applies them")
        case .lostAndFound:
            (
                "lostAndFound", "the directory of what fsck has moved away",
                "its file \"log\" says where each object came from"
            )
        case .overflow:
            (
                "overflow", "the directory of targets and attributes that have no room in their own objects",
                "protectfs fsck verifies it"
            )
        case .companion: ("companion", "the companion of a long name", "it belongs to the entry without .n")
        case .unknownReserved: ("unknown", "a reserved name of a newer version", "it is hidden, and kept as it is")
        case .long, .encoded, .foreign: nil
        }
    }
}
