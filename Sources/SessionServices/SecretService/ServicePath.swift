// The paths of the objects of the Secret Service, and what is at a path.

import SecretStore

/// An object that the Secret Service exports.
enum ServicePath: Equatable {
    /// The service itself.
    case service
    /// The one collection: the secrets of the mount.
    case collection
    /// An item, by the name of its file in the store. It may be gone.
    case item(String)
    /// The session of a client. A plain session has no state, so its path is made of the client's bus name, and nothing is
    /// left behind by a client that ends.
    case session(String)
    /// A prompt, by its number.
    case prompt(UInt64)

    /// The path of the service.
    static let root = "/org/freedesktop/secrets"
    /// The answer in place of a path if there is no object.
    static let none = "/"
    /// The collection's name, which desktop programs expect.
    static let collectionName = "login"
    /// Other names of the collection. Programs also use them as paths.
    static let aliases = ["default", "login"]

    /// The object at a path; nil if none can be there.
    init?(_ path: String) {
        guard path == Self.root || path.hasPrefix(Self.root + "/") else { return nil }
        let words = path.dropFirst(Self.root.count).split(separator: "/").map(String.init)
        switch (words.count, words.first) {
        case (0, _): self = .service
        case (2, "collection") where words[1] == Self.collectionName: self = .collection
        case (2, "aliases") where Self.aliases.contains(words[1]): self = .collection
        case (3, "collection") where words[1] == Self.collectionName && SecretItem.isName(words[2]):
            self = .item(words[2])
        case (2, "session"): self = .session(words[1])
        case (2, "prompt"):
            guard let number = UInt64(words[1]) else { return nil }
            self = .prompt(number)
        default: return nil
        }
    }

    /// The path as D-Bus writes it.
    var text: String {
        switch self {
        case .service: Self.root
        case .collection: "\(Self.root)/collection/\(Self.collectionName)"
        case .item(let name): "\(Self.collection.text)/\(name)"
        case .session(let name): "\(Self.root)/session/\(name)"
        case .prompt(let number): "\(Self.root)/prompt/\(number)"
        }
    }

    /// The session of the client with this unique name, such as `:1.42`.
    static func session(of client: String) -> ServicePath {
        .session(String(client.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }))
    }

    /// The names of the objects just below a path, for tools that draw the tree.
    static func children(of path: String, items: () -> [String]) -> [String] {
        switch path {
        case "/": ["org"]
        case "/org": ["freedesktop"]
        case "/org/freedesktop": ["secrets"]
        case root: ["collection", "aliases"]
        case root + "/collection": [collectionName]
        case root + "/aliases": aliases
        case Self.collection.text: items()
        default: []
        }
    }
}
