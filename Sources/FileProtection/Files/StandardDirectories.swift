// Foundation's functions that name a program's standard directories. They name those of its container if it uses one.

import PlainFoundation

/// The directories of this program alone.
///
/// Foundation on Linux gives all programs of a user one Application Support and one directory of caches. Code that was written
/// for an iPhone clears both, because there nothing of other programs is in them.
enum OwnDirectory {
    /// The name of the program's file. The first argument would be for the caller to choose.
    private static let name: String = {
        let name = (try? Foundation.FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        let last = (name as NSString).lastPathComponent
        // The kernel says so of a file that was replaced while it runs.
        return last.hasSuffix(" (deleted)") ? String(last.dropLast(10)) : last
    }()

    /// The place of a standard directory of the user; nil if it is Foundation's.
    static func place(of directory: FileManager.SearchPathDirectory) -> URL? {
        if let container = ProtectedContainer.current { return container.place(of: directory) }
        guard [.applicationSupportDirectory, .cachesDirectory].contains(directory), !name.isEmpty,
            let shared = Plain.searchPaths(directory, .userDomainMask, true).first
        else { return nil }
        return URL(fileURLWithPath: shared, isDirectory: true).appendingPathComponent(name, isDirectory: true)
    }

    /// Makes a directory that only the user can enter, unless it exists.
    static func make(_ place: URL, _ attributes: [FileAttributeKey: Any] = [:]) throws {
        var attributes = attributes
        // A directory that exists keeps its mode.
        if !ProtectedFileManager.default.fileExists(atPath: place.path) { attributes[.posixPermissions] = 0o700 }
        try ProtectedFileManager.default.createDirectory(
            at: place, withIntermediateDirectories: true, attributes: attributes)
    }
}

extension Foundation.FileManager {
    /// The URL of a common directory (`FileManager.url(for:in:appropriateFor:create:)`): that of the program's container
    /// if it uses one, else of Application Support and Caches the program's own, else Foundation's.
    ///
    /// For `.itemReplacementDirectory` in `.userDomainMask` this is a new, empty directory that only this user can
    /// enter, on the file system of `reference`, whatever `create` says. On a protected mount its default is the class
    /// of `reference`: of the file, or, of a directory, the class of new files in it. If `reference` does not exist
    /// yet, it is the class of a new file there. The program removes the directory after use.
    ///
    /// - Throws: `CocoaError` 513 if no directory can be made there, and Foundation's errors for other directories.
    public func url(
        for directory: SearchPathDirectory, in domain: SearchPathDomainMask, appropriateFor reference: URL?,
        create shouldCreate: Bool
    ) throws -> URL {
        if directory == .itemReplacementDirectory { return try ItemReplacement.directory(for: reference, in: domain) }
        guard domain == .userDomainMask, let place = OwnDirectory.place(of: directory) else {
            return try Plain.url(self, for: directory, in: domain, appropriateFor: reference, create: shouldCreate)
        }
        if shouldCreate { try OwnDirectory.make(place) }
        return place
    }
}

extension Foundation.FileManager {
    /// The directory that the programs of a group share (`containerURL(forSecurityApplicationGroupIdentifier:)`): beside the
    /// program's container if it uses one, else in the user's Application Support. It is made if it is missing. Nothing checks
    /// that a program belongs to the group.
    ///
    /// - Returns: nil if the name cannot be that of a directory, or if it cannot be made.
    public func containerURL(forSecurityApplicationGroupIdentifier identifier: String) -> URL? {
        guard !identifier.isEmpty, !identifier.hasPrefix("."), !identifier.contains("/"), !identifier.contains("\0"),
            let parent = ProtectedContainer.current?.url.deletingLastPathComponent()
                ?? Plain.searchPaths(.applicationSupportDirectory, .userDomainMask, true).first.map({
                    URL(fileURLWithPath: $0, isDirectory: true)
                })
        else { return nil }
        let place = parent.appendingPathComponent(identifier, isDirectory: true)
        return (try? OwnDirectory.make(place)) == nil ? nil : place
    }
}

/// The program's home directory: its container if it uses one, else Foundation's answer.
public func NSHomeDirectory() -> String { ProtectedContainer.current?.url.path ?? Plain.homeDirectory() }

/// The directory for temporary files, with a slash at the end: that of the program's container if it uses one, else
/// Foundation's answer.
public func NSTemporaryDirectory() -> String {
    ProtectedContainer.current.map { $0.temporaryDirectory.path + "/" } ?? Plain.temporaryDirectory()
}

/// The paths of a standard directory, as `FileManager.urls(for:in:)` has them.
public func NSSearchPathForDirectoriesInDomains(
    _ directory: FileManager.SearchPathDirectory, _ domain: FileManager.SearchPathDomainMask, _ expandTilde: Bool
) -> [String] {
    guard domain.contains(.userDomainMask), OwnDirectory.place(of: directory) != nil else {
        return Plain.searchPaths(directory, domain, expandTilde)
    }
    return ProtectedFileManager.default.urls(for: directory, in: domain).map(\.path)
}

// Foundation on Linux lacks these names.
extension URL {
    /// The directory for the user's documents.
    public static var documentsDirectory: URL { standard(.documentDirectory) }
    /// The directory for files that the program needs and the user does not see.
    public static var applicationSupportDirectory: URL { standard(.applicationSupportDirectory) }
    /// The directory for files that can be made again.
    public static var cachesDirectory: URL { standard(.cachesDirectory) }
    /// The directory that holds the last two.
    public static var libraryDirectory: URL { standard(.libraryDirectory) }
    /// The directory for downloads.
    public static var downloadsDirectory: URL { standard(.downloadsDirectory) }
    /// The directory for temporary files.
    public static var temporaryDirectory: URL { ProtectedFileManager.default.temporaryDirectory }
    /// The program's home directory.
    public static var homeDirectory: URL { ProtectedFileManager.default.homeDirectoryForCurrentUser }

    private static func standard(_ directory: FileManager.SearchPathDirectory) -> URL {
        ProtectedFileManager.default.urls(for: directory, in: .userDomainMask).first ?? homeDirectory
    }
}
