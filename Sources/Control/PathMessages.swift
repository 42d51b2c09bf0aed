// The request `path`: translates between a path on the mount and the path of its backing object.

import CLibrary
import VolumeFormat

/// Asks for the other path of an object.
package struct PathRequest: Sendable, Equatable {
    /// The path from the mount's root, or with `isReverse` from the store's root: without a leading slash, empty for the root.
    package var path: [UInt8]
    /// Whether `path` is a path of the store.
    package var isReverse: Bool
    /// Whether the last component may be missing. Not with `isReverse`.
    package var allowsMissing: Bool

    /// Makes a request.
    package init(path: [UInt8], isReverse: Bool, allowsMissing: Bool = false) {
        self.path = path
        self.isReverse = isReverse
        self.allowsMissing = allowsMissing
    }

    /// Reads a request. Nil unless the path is relative, has no empty, `.` and `..` components, and is not longer than a path
    /// can be.
    init?(_ json: JSONValue) {
        guard let text = json["path"]?.text, let path = Hexadecimal.decode(text.utf8), path.count <= PATH_MAX,
            !path.contains(0)
        else { return nil }
        let components = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard path.isEmpty || !components.contains(where: { $0.isEmpty || $0 == [0x2E] || $0 == [0x2E, 0x2E] })
        else { return nil }
        self.init(
            path: path, isReverse: json["reverse"]?.bool ?? false, allowsMissing: json["missing"]?.bool ?? false)
    }

    var json: JSONValue {
        [
            "request": "path", "path": .string(Hexadecimal.text(path)), "reverse": .bool(isReverse),
            "missing": .bool(allowsMissing),
        ]
    }
}

/// Both paths of an object.
package struct PathReport: Sendable, Equatable {
    /// The most bytes of both paths of a report together, so that the report fits into a frame.
    package static let longestPaths = 30_000

    /// The path from the mount's root.
    package var visible: [UInt8] = []
    /// The path from the store's root.
    package var backing: [UInt8] = []
    /// For a long name: the name of the entry that holds it, in the same directory of the store.
    package var companion: [UInt8]?
    /// The kind of object; nil if nothing has this name.
    package var kind: String?
    /// `verified`, `unverified` or `undecryptable`.
    package var standing = "verified"

    /// An empty report, to be filled in.
    package init() {}

    init?(_ json: JSONValue) {
        func bytes(_ key: String) -> [UInt8]? { json[key]?.text.flatMap { Hexadecimal.decode($0.utf8) } }
        guard let visible = bytes("visible"), let backing = bytes("backing"), let standing = json["name"]?.text else {
            return nil
        }
        self.visible = visible
        self.backing = backing
        self.standing = standing
        companion = bytes("companion")
        kind = json["kind"]?.text
    }

    var json: JSONValue {
        [
            "visible": .string(Hexadecimal.text(visible)), "backing": .string(Hexadecimal.text(backing)),
            "companion": companion.map { .string(Hexadecimal.text($0)) } ?? .null,
            "kind": kind.map { .string($0) } ?? .null, "name": .string(standing),
        ]
    }
}

extension ControlClient {
    /// The other path of an object.
    package func path(_ request: PathRequest) throws(ControlError) -> PathReport {
        guard let report = PathReport(try ask(request.json, seconds: 60)) else { throw .protocolViolation }
        return report
    }
}
