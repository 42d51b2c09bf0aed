// Translates between the paths of a mount and the paths of its backing store, for people who restore or study one file.

package import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

/// The proof that a name has.
package enum NameStanding: String, Sendable {
    /// The name verifies under the ID of its directory.
    case verified
    /// The directory has no record, so nothing proves its names.
    case unverified
    /// The backing name does not decrypt in its directory.
    case undecryptable
}

/// One object by both of its names.
package struct NamedPlace: Sendable {
    /// The path on the mount, from its root.
    package var visible: [[UInt8]] = []
    /// The path in the backing store, from its root.
    package var backing: [EntryName] = []
    /// For a long name: the entry beside the object that holds its name.
    package var companion: EntryName?
    /// The kind of object. Nil if nothing has this name.
    package var kind: NodeKind? = .directory
    /// The weakest proof that a name of the path has.
    package var standing = NameStanding.verified

    private mutating func weaken(to other: NameStanding) {
        if other == .undecryptable || standing == .verified { standing = other }
    }
}

/// The reason why a backing object has no name on the mount.
package struct NamelessPlace: Error, Equatable, Sendable {
    /// The kind of the reserved name in its path.
    package var kind: ReservedName.Kind
}

extension NamedPlace {
    /// Finds the backing entry of a path on the mount. Reads names and records only, so it works in every state.
    ///
    /// - Parameter missing: whether the last component may be missing. The result then says where it would be.
    package static func find(
        visible path: [[UInt8]], in volume: Volume, missing: Bool = false
    ) throws(VolumeError) -> NamedPlace {
        var place = NamedPlace()
        var nodes = [volume.root]
        defer { for node in nodes.dropFirst() { volume.forget(node, count: 1) } }
        for (index, name) in path.enumerated() {
            let parent = nodes[nodes.count - 1]
            let directory = try volume.directory(parent)
            let located = try volume.locate(name, in: parent, directory)
            let isLast = index == path.count - 1
            place.visible.append(name)
            place.backing.append(located.name.entry)
            place.companion = Volume.companionName(of: located.name.entry)
            place.kind = nil
            switch volume.decode(located.name.entry, in: directory, try volume.directoryID(parent)) {
            case .unverified: place.weaken(to: .unverified)
            case .undecryptable where located.status != nil: place.weaken(to: .undecryptable)
            default: break
            }
            guard let status = located.status else {
                if isLast, missing { break }
                throw .noEntry
            }
            place.kind = NodeKind(status.kind)
            if !isLast { nodes.append(try step(status, in: parent, located.name.entry, of: volume)) }
        }
        return place
    }

    /// Finds the path on the mount of a backing entry, given from the store's root. A companion is replaced by the entry
    /// whose name it holds.
    ///
    /// - Returns: nil, and why, if the entry has no name on the mount because it is the format's own.
    package static func find(
        backing path: [EntryName], in volume: Volume
    ) throws(VolumeError) -> Result<NamedPlace, NamelessPlace> {
        var place = NamedPlace()
        var nodes = [volume.root]
        defer { for node in nodes.dropFirst() { volume.forget(node, count: 1) } }
        for (index, given) in path.enumerated() {
            let parent = nodes[nodes.count - 1]
            let directory = try volume.directory(parent)
            var entry = given
            if index == path.count - 1, let named = Self.entry(ofCompanion: given) { entry = named }
            let decoded = try volume.below { () throws(Errno) in
                try volume.decodeOrFail(entry, in: directory, try id(of: parent, in: volume))
            }
            guard let name = Volume.nameShown(for: entry, decoded) else {
                return .failure(NamelessPlace(kind: ReservedName.kind(of: entry.bytes.span)))
            }
            guard let status = try volume.status(of: entry, in: directory) else { throw .noEntry }
            switch decoded {
            case .unverified: place.weaken(to: .unverified)
            case .undecryptable: place.weaken(to: .undecryptable)
            case .name, .reserved: break
            }
            place.visible.append(name)
            place.backing.append(entry)
            place.companion = Volume.companionName(of: entry)
            place.kind = NodeKind(status.kind)
            if index < path.count - 1 { nodes.append(try step(status, in: parent, entry, of: volume)) }
        }
        return .success(place)
    }

    private static func id(of node: Node, in volume: Volume) throws(Errno) -> ObjectID? {
        do throws(VolumeError) { return try volume.directoryID(node) } catch { throw error.errno }
    }

    /// The directory at an entry that was just seen, with one lookup counted.
    private static func step(
        _ status: Status, in parent: Node, _ entry: EntryName, of volume: Volume
    ) throws(VolumeError) -> Node {
        guard status.kind == .directory else { throw .refused(.ENOTDIR) }
        return try volume.seen(status, in: parent, entry).node
    }

    /// The long name's entry to which a companion belongs.
    private static func entry(ofCompanion name: EntryName) -> EntryName? {
        guard ReservedName.kind(of: name.bytes.span) == .companion else { return nil }
        return BackingName.known(Array(name.bytes.prefix(NameLimits.longNameLength)))
    }
}
