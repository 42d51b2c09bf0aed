// The request `trust`: what is in the store now is accepted, although this machine has seen a later version of it.

import VolumeFormat

/// Asks to accept a file, or all files.
package struct TrustRequest: Sendable, Equatable {
    /// The file's path from the mount's root; nil for all files.
    package var path: [UInt8]?

    /// Makes a request.
    package init(path: [UInt8]?) { self.path = path }

    /// Reads a request. Nil unless it names a file by a path as `path` takes it, or all files.
    init?(_ json: JSONValue) {
        if json["all"]?.bool == true {
            self.init(path: nil)
        } else {
            guard let path = PathRequest(json)?.path, !path.isEmpty else { return nil }
            self.init(path: path)
        }
    }

    var json: JSONValue {
        [
            "request": "trust", "path": path.map { .string(Hexadecimal.text($0)) } ?? .null,
            "all": .bool(path == nil),
        ]
    }
}

extension ControlClient {
    /// Accepts a file, or all files, as they are in the store.
    package func trust(_ request: TrustRequest) throws(ControlError) {
        _ = try ask(request.json, seconds: 60)
    }
}
