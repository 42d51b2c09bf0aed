// The requests `renewKey` and `formerKeys`, by which a command changes the class keys of a volume that is mounted.

import CLibrary
package import Keybag
import VolumeFormat

/// Asks for a new key of a file whose header names a former class key.
package struct RenewalRequest: Sendable, Equatable {
    /// The file's path in the store, without a leading slash.
    package var path: [UInt8]
    /// The most bytes to write each second. Nil sets no bound.
    package var rate: UInt64?

    /// Makes a request.
    package init(path: [UInt8], rate: UInt64?) {
        self.path = path
        self.rate = rate
    }

    /// Reads a request. Nil unless the path is relative, has no empty, `.` and `..` components, and is not longer than a path
    /// can be.
    init?(_ json: JSONValue) {
        guard let text = json["path"]?.text, let path = Hexadecimal.decode(text.utf8), !path.isEmpty,
            path.count <= PATH_MAX, !path.contains(0)
        else { return nil }
        let components = path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard !components.contains(where: { $0.isEmpty || $0 == [0x2E] || $0 == [0x2E, 0x2E] }) else { return nil }
        var rate: UInt64?
        if let given = json["rate"], given != .null {
            guard let number = given.integer, number > 0 else { return nil }
            rate = UInt64(number)
        }
        self.init(path: path, rate: rate)
    }

    var json: JSONValue {
        [
            "request": "renewKey", "path": .string(Hexadecimal.text(path)),
            "rate": rate.map { .integer(Int64(clamping: $0)) } ?? .null,
        ]
    }
}

/// The answer to `renewKey`.
package struct RenewalReport: Sendable, Equatable {
    /// Whether the file has a new key. It has none if no former key wraps its key, or if it is gone.
    package var isRenewed: Bool
    /// The bytes of content that were written, with the holes among them.
    package var bytes: UInt64

    /// Makes a report.
    package init(isRenewed: Bool, bytes: UInt64) {
        self.isRenewed = isRenewed
        self.bytes = bytes
    }

    init?(_ json: JSONValue) {
        guard let isRenewed = json["renewed"]?.bool, let bytes = json["bytes"]?.integer else { return nil }
        self.init(isRenewed: isRenewed, bytes: UInt64(clamping: bytes))
    }

    var json: JSONValue { ["renewed": .bool(isRenewed), "bytes": .unsigned(bytes)] }
}

/// The answer to `formerKeys`.
package struct FormerKeysReport: Sendable, Equatable {
    /// The number of moves in the store that a look through it may miss. Nil while one runs.
    package var moves: UInt64?
    /// The former keys that open files need.
    package var keys: Set<FormerKey>
    /// Whether writes that came after a lock wait for their files.
    package var hasLateRecords: Bool

    /// Makes a report.
    package init(moves: UInt64?, keys: Set<FormerKey>, hasLateRecords: Bool) {
        self.moves = moves
        self.keys = keys
        self.hasLateRecords = hasLateRecords
    }

    init?(_ json: JSONValue) {
        guard let moves = json["moves"], let late = json["lateRecords"]?.bool, let keys = json["keys"]?.elements else {
            return nil
        }
        self.init(moves: moves.integer.map { UInt64(clamping: $0) }, keys: [], hasLateRecords: late)
        for key in keys {
            guard let number = key["class"]?.integer.flatMap({ UInt8(exactly: $0) }),
                let generation = key["generation"]?.integer.flatMap({ UInt16(exactly: $0) })
            else { return nil }
            self.keys.insert(FormerKey(number: number, generation: generation))
        }
    }

    var json: JSONValue {
        let sorted = keys.sorted { ($0.number, $0.generation) < ($1.number, $1.generation) }
        return [
            "moves": moves.map { .unsigned($0) } ?? .null, "lateRecords": .bool(hasLateRecords),
            "keys": .array(
                sorted.map {
                    ["class": .integer(Int64($0.number)), "generation": .integer(Int64($0.generation))]
                }),
        ]
    }
}

extension ControlClient {
    /// Gives a file a new key if a former class key wraps its key. Calls `progress` while it is written, which says whether
    /// to go on.
    ///
    /// - Throws: `.closed` if it says no.
    package func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(ControlError) -> RenewalReport {
        guard let report = RenewalReport(try ask(request.json, progress: progress)) else { throw .protocolViolation }
        return report
    }

    /// What needs former class keys beyond the store.
    package func formerKeys() throws(ControlError) -> FormerKeysReport {
        guard let report = FormerKeysReport(try ask(["request": "formerKeys"], seconds: 60)) else {
            throw .protocolViolation
        }
        return report
    }
}
