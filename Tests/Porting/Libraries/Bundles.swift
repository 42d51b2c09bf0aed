// One file that holds a tree, as libraries for archives are written. Each item has its class with it.

import FileProtection

/// The file is a property list of items. It is written beside its place and replaces an older one at once.
struct Tree: Codable {
    struct Item: Codable {
        let path: String
        let mode: Int
        let modified: Date
        let protection: String?
        /// Nil for a directory.
        let content: Data?
    }

    enum Failure: Error { case outside(String) }

    let items: [Item]

    /// Reads a directory with everything below it.
    init(of directory: URL) throws {
        let manager = FileManager.default
        items = try manager.subpathsOfDirectory(atPath: directory.path).sorted().map { path in
            let url = directory.appendingPathComponent(path)
            let attributes = try manager.attributesOfItem(atPath: url.path)
            let isDirectory = attributes[.type] as? FileAttributeType == .typeDirectory
            return Item(
                path: path, mode: attributes[.posixPermissions] as? Int ?? 0o600,
                modified: attributes[.modificationDate] as? Date ?? Date(),
                protection: (attributes[.protectionKey] as? FileProtectionType)?.rawValue,
                content: isDirectory ? nil : try Data(contentsOf: url))
        }
    }

    static func read(_ url: URL) throws -> Tree {
        try PropertyListDecoder().decode(Tree.self, from: Data(contentsOf: url))
    }

    /// Writes the file; an older one stays until the new one is whole, and gives it its class.
    func write(to url: URL, class type: FileProtectionType) throws {
        let manager = FileManager.default
        let place = try manager.url(
            for: .itemReplacementDirectory, in: .userDomainMask, appropriateFor: url, create: true)
        defer { try? manager.removeItem(at: place) }
        let new = place.appendingPathComponent(url.lastPathComponent)
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        try encoder.encode(self).write(to: new)
        if try url.checkResource() {
            _ = try manager.replaceItemAt(url, withItemAt: new)
        } else {
            try manager.setAttributes([.protectionKey: type], ofItemAtPath: new.path)
            try manager.moveItem(at: new, to: url)
        }
    }

    /// Makes the tree anew below a directory, each item in its class from the beginning.
    func unpack(into directory: URL) throws {
        let manager = FileManager.default
        for item in items {
            guard !item.path.hasPrefix("/"), !item.path.split(separator: "/").contains("..") else {
                throw Failure.outside(item.path)
            }
            let url = directory.appendingPathComponent(item.path)
            let type = item.protection.map { FileProtectionType(rawValue: $0) }
            if let content = item.content {
                try content.write(to: url, options: type.map(Tree.option) ?? [])
            } else {
                try manager.createDirectory(
                    at: url, withIntermediateDirectories: true, attributes: type.map { [.protectionKey: $0] })
            }
        }
        // Afterwards, because making a file changes the date of its directory.
        for item in items.reversed() {
            try manager.setAttributes(
                [.posixPermissions: item.mode, .modificationDate: item.modified],
                ofItemAtPath: directory.appendingPathComponent(item.path).path)
        }
    }

    private static func option(_ type: FileProtectionType) -> Data.WritingOptions {
        switch type {
        case .complete: .completeFileProtection
        case .completeUnlessOpen: .completeFileProtectionUnlessOpen
        case FileProtectionType.none: .noFileProtection
        default: .completeFileProtectionUntilFirstUserAuthentication
        }
    }
}

extension URL {
    /// Whether the item is there, as its own error tells from a failure.
    fileprivate func checkResource() throws -> Bool {
        do { return try checkResourceIsReachable() } catch CocoaError.fileReadNoSuchFile { return false }
    }
}
