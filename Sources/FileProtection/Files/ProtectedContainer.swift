// The standard directories of a program on a protected mount, as an application's container on an iPhone.

/// A directory on a protected mount that holds the standard directories of one program.
///
/// Foundation on Linux takes these directories from the user's account or from the environment, so they are outside the
/// mount. Call `use(at:class:)` once, at the start of the program. From then on `FileManager.urls(for:in:)`,
/// `url(for:in:appropriateFor:create:)`, `temporaryDirectory`, `homeDirectoryForCurrentUser`, `NSHomeDirectory()`,
/// `NSTemporaryDirectory()`, `NSSearchPathForDirectoriesInDomains(_:_:_:)` and `URL.documentsDirectory` and its like name
/// directories in the container, for every user and whatever HOME says. This holds for files that import this library;
/// the environment of the process, and of processes that it starts, stays as it is.
public struct ProtectedContainer: Sendable, Equatable {
    /// The container itself: the home directory of the program.
    public let url: URL
    /// Whether it was on a protected mount when it was made. The policy may allow another place.
    package let wasProtected: Bool

    private static let box = Box()

    private final class Box: @unchecked Sendable {
        // The lock guards the field.
        let lock = NSLock()
        var container: ProtectedContainer?
    }

    /// The container of this process; nil before `use(at:class:)`.
    public static var current: ProtectedContainer? { box.lock.withLock { box.container } }

    /// Makes a directory the container of this process. Makes Documents, Library/Application Support, Library/Caches and
    /// tmp in it, which only the user can enter, if they are missing. This works in every state of the volume.
    ///
    /// - Parameters:
    ///   - url: a directory on a protected mount. If it is missing, it is made.
    ///   - type: the default class for new files, given to each of these directories; nil leaves their defaults as they are.
    /// - Throws: `FileProtectionError.notProtected` outside a protected mount if the policy requires one, and Foundation's
    ///   errors. Then the former container stays.
    @discardableResult
    public static func use(at url: URL, class type: FileProtectionType? = nil) throws -> ProtectedContainer {
        guard url.isFileURL else { throw FileProtectionError.notProtected(url.absoluteString) }
        let isProtected = try ProtectedFileManager.protects(url.path)
        var attributes: [FileAttributeKey: Any] = [:]
        if let type { attributes[.protectionKey] = type }
        let home = url.standardizedFileURL
        let place = URL(fileURLWithPath: home.path, isDirectory: true)
        let container = ProtectedContainer(url: place, wasProtected: isProtected)
        for place in [container.url, container.temporaryDirectory] + made.compactMap({ container.place(of: $0) }) {
            try OwnDirectory.make(place, attributes)
        }
        box.lock.withLock { box.container = container }
        return container
    }

    /// The directory for temporary files.
    public var temporaryDirectory: URL { url.appendingPathComponent("tmp", isDirectory: true) }

    /// The directories that exist from the beginning.
    private static let made: [FileManager.SearchPathDirectory] = [
        .libraryDirectory, .documentDirectory, .applicationSupportDirectory, .cachesDirectory,
    ]

    /// The place of a standard directory of the user; nil for one that is no part of a container.
    func place(of directory: FileManager.SearchPathDirectory) -> URL? {
        let names: [FileManager.SearchPathDirectory: String] = [
            .documentDirectory: "Documents", .libraryDirectory: "Library",
            .applicationSupportDirectory: "Library/Application Support", .cachesDirectory: "Library/Caches",
            .preferencePanesDirectory: "Library/PreferencePanes",
            .autosavedInformationDirectory: "Library/Autosave Information", .downloadsDirectory: "Downloads",
            .desktopDirectory: "Desktop", .moviesDirectory: "Movies", .musicDirectory: "Music",
            .picturesDirectory: "Pictures", .sharedPublicDirectory: "Public",
        ]
        return names[directory].map { url.appendingPathComponent($0, isDirectory: true) }
    }
}
