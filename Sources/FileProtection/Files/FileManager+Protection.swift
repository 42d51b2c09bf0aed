// FileManager. It reads and sets classes as attributes, and preserves them when it creates, copies, moves and replaces
// files.

import CLibrary
import CLinuxShim
import PlainFoundation

/// The `FileManager` of programs that import this library.
public typealias FileManager = ProtectedFileManager

/// Foundation's `FileManager`, with protection classes that take effect on a protected mount.
open class ProtectedFileManager: Foundation.FileManager, @unchecked Sendable {
    private static let shared = ProtectedFileManager()

    /// The shared file manager of the process.
    open override class var `default`: ProtectedFileManager { shared }

    /// Makes a file manager that can have its own delegate.
    public override init() { super.init() }

    /// Foundation's attributes, and `.protectionKey` if the item has a class: its name, which casts to `String` and
    /// `FileProtectionType`. For a directory this is the default for new entries. It is missing if the permissions do not let this user read the item.
    ///
    /// - Throws: Foundation's errors.
    open override func attributesOfItem(atPath path: String) throws -> [FileAttributeKey: Any] {
        var attributes = try explaining { try super.attributesOfItem(atPath: path) }
        guard attributes[.type] as? FileAttributeType != .typeSymbolicLink else { return attributes }
        do throws(ProtectionSystemError) {
            // As on an iPhone, it casts to String, too.
            attributes[.protectionKey] = try ProtectionAttribute.get(path)?._bridgeToObjectiveC()
        } catch {
            // The class is an extended attribute, which needs read permission. Foundation's other attributes do not.
            guard error.code == EACCES else { throw CocoaError.of(error.code, .read, path) }
        }
        return attributes
    }

    /// Sets the class that `.protectionKey` names, then the other attributes.
    ///
    /// A file that gets a stronger class is replaced by a version with a new key, so that no older copy of its header
    /// opens it. If that cannot be done now (the file is open for writing, has several names, or its daemon cannot be
    /// reached), it gets the class and keeps its key; `protectfs class list` then marks it as exposed.
    ///
    /// - Throws: `CocoaError` 513 if the old or the new class is closed, `FileProtectionError.notProtected` outside a
    ///   protected mount if the policy requires one, and `FileProtectionError.unknownClass` for an unknown value. Then
    ///   nothing is set.
    open override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
        // The class comes first, because it needs write permission, which the other attributes may remove.
        if let type = try ProtectedFileManager.type(in: attributes), try ProtectedFileManager.protects(path) {
            try ProtectedFileManager.set(type, path)
        }
        let rest = attributes.filter { $0.key != .protectionKey }
        if !rest.isEmpty { try super.setAttributes(rest, ofItemAtPath: path) }
    }

    /// Creates a file or replaces its content. With `.protectionKey` the file has its class before its first byte is
    /// written.
    ///
    /// - Returns: true if the file was written. Use `Data.write(to:options:)` to learn the cause of a failure.
    open override func createFile(
        atPath path: String, contents data: Data?, attributes: [FileAttributeKey: Any]? = nil
    ) -> Bool {
        do {
            let type = try ProtectedFileManager.type(in: attributes ?? [:])
            let url = URL(fileURLWithPath: path)
            try (data ?? Data()).write(to: url, options: type.map { [.atomic, $0.writingOption] } ?? .atomic)
            let rest = (attributes ?? [:]).filter { $0.key != .protectionKey }
            if !rest.isEmpty { try super.setAttributes(rest, ofItemAtPath: path) }
            return true
        } catch { return false }
    }

    /// Creates a directory in any state of the volume. `.protectionKey` names its default for new entries, which it has
    /// from the beginning. New intermediate directories get the same default.
    ///
    /// - Throws: Foundation's errors, and `FileProtectionError.notProtected` outside a protected mount, before anything
    ///   is made.
    open override func createDirectory(
        atPath path: String, withIntermediateDirectories intermediate: Bool, attributes: [FileAttributeKey: Any]? = nil
    ) throws {
        let type = try ProtectedFileManager.type(in: attributes ?? [:])
        let rest = attributes?.filter { $0.key != .protectionKey }
        guard let type, try ProtectedFileManager.protects(path) else {
            return try explaining {
                try super.createDirectory(atPath: path, withIntermediateDirectories: intermediate, attributes: rest)
            }
        }
        var isMade = false
        if unsafe access(path, F_OK) != 0 {
            let parent = (path as NSString).deletingLastPathComponent
            if intermediate, !parent.isEmpty, unsafe access(parent, F_OK) != 0 {
                try createDirectory(atPath: parent, withIntermediateDirectories: true, attributes: attributes)
            }
            do {
                try ProtectedCopy.directory(path, default: type, mode: 0o777)
                isMade = true
            } catch let error as CocoaError where intermediate && error.code == .fileWriteFileExists {
                // Another process has made the directory in the meantime.
            }
        }
        if !isMade {
            try explaining {
                try super.createDirectory(atPath: path, withIntermediateDirectories: intermediate, attributes: rest)
            }
            try ProtectedFileManager.set(type, path)
        }
        if let rest, !rest.isEmpty { try super.setAttributes(rest, ofItemAtPath: path) }
    }

    /// Creates a directory. See `createDirectory(atPath:withIntermediateDirectories:attributes:)`.
    open override func createDirectory(
        at url: URL, withIntermediateDirectories intermediate: Bool, attributes: [FileAttributeKey: Any]? = nil
    ) throws {
        guard url.isFileURL else {
            return try super.createDirectory(at: url, withIntermediateDirectories: intermediate, attributes: attributes)
        }
        try createDirectory(atPath: url.path, withIntermediateDirectories: intermediate, attributes: attributes)
    }

    /// Copies a file or a tree. Every copy has the class of its source. Asks the delegate as Foundation does.
    ///
    /// - Throws: `CocoaError` 257 if a source is locked, 513 if its class is closed for new files, and 516 if the
    ///   target exists. `FileProtectionError.notProtected` if the target is outside a protected mount, the class of a
    ///   file was chosen, and the policy requires a mount. A class that a directory gave is lost with a warning.
    open override func copyItem(atPath source: String, toPath target: String) throws {
        guard ProtectedMount.holdingEntry(source) != nil else {
            return try super.copyItem(atPath: source, toPath: target)
        }
        if try ProtectedFileManager.protectsCopy(of: source, at: target) {
            return try ProtectedCopy.copy(source, to: target, asking: self)
        }
        do { try super.copyItem(atPath: source, toPath: target) } catch { throw error.ofReading(source) }
    }

    /// Copies a file or a tree. See `copyItem(atPath:toPath:)`.
    open override func copyItem(at source: URL, to target: URL) throws {
        guard source.isFileURL, target.isFileURL else { return try super.copyItem(at: source, to: target) }
        try copyItem(atPath: source.path, toPath: target.path)
    }

    /// Moves a file or a tree, which keeps its classes. A move to another protected mount copies it and removes the
    /// source.
    ///
    /// - Throws: Foundation's errors. A move to another mount also throws those of `copyItem(atPath:toPath:)`.
    open override func moveItem(atPath source: String, toPath target: String) throws {
        guard let mount = ProtectedMount.holdingEntry(source), mount != ProtectedMount.holdingEntry(target) else {
            do { return try explaining { try super.moveItem(atPath: source, toPath: target) } } catch {
                // A move into a mount is a copy of Foundation's, whose error has the path of the source.
                guard error.protectedClass == nil, posixCode(error) == EACCES,
                    LockedPath.type(target, .write) != nil
                else { throw error }
                throw CocoaError.of(EACCES, .write, target)
            }
        }
        let (from, to) = (URL(fileURLWithPath: source), URL(fileURLWithPath: target))
        guard delegate?.fileManager(self, shouldMoveItemAt: from, to: to) ?? true else { return }
        do {
            // The copy does not ask the delegate, because an item that it excludes would be lost when the source is
            // removed.
            if try ProtectedFileManager.protectsCopy(of: source, at: target) {
                try ProtectedCopy.copy(source, to: target, asking: nil)
            } else {
                do { try Foundation.FileManager().copyItem(atPath: source, toPath: target) } catch {
                    throw error.ofReading(source)
                }
            }
            try Foundation.FileManager().removeItem(atPath: source)
        } catch {
            guard delegate?.fileManager(self, shouldProceedAfterError: error, movingItemAt: from, to: to) ?? false
            else {
                throw error
            }
        }
    }

    /// Moves a file or a tree. See `moveItem(atPath:toPath:)`.
    open override func moveItem(at source: URL, to target: URL) throws {
        guard source.isFileURL, target.isFileURL else { return try super.moveItem(at: source, to: target) }
        try moveItem(atPath: source.path, toPath: target.path)
    }

    /// The standard directories: in the user's domain that of the program's `ProtectedContainer` if it uses one, else of
    /// Application Support and Caches the program's own.
    open override func urls(
        for directory: FileManager.SearchPathDirectory, in domainMask: FileManager.SearchPathDomainMask
    ) -> [URL] {
        guard domainMask.contains(.userDomainMask), let place = OwnDirectory.place(of: directory) else {
            return super.urls(for: directory, in: domainMask)
        }
        let others = domainMask.subtracting(.userDomainMask)
        return [place] + (others.isEmpty ? [] : super.urls(for: directory, in: others))
    }

    /// The directory for temporary files: that of the program's `ProtectedContainer` if it uses one.
    open override var temporaryDirectory: URL {
        ProtectedContainer.current?.temporaryDirectory ?? super.temporaryDirectory
    }

    /// The home directory: the program's `ProtectedContainer` if it uses one.
    open override var homeDirectoryForCurrentUser: URL {
        ProtectedContainer.current?.url ?? super.homeDirectoryForCurrentUser
    }

    /// Always nil, because there is no iCloud on Linux. Apple's platforms also return nil when no user is signed in.
    open func url(forUbiquityContainerIdentifier identifier: String?) -> URL? { nil }

    /// The class that the attributes name. Raw values are accepted as well.
    static func type(in attributes: [FileAttributeKey: Any]) throws(FileProtectionError) -> FileProtectionType? {
        guard let value = attributes[.protectionKey] else { return nil }
        return try FileProtectionType.of(value)
    }

    /// Whether a path is on a protected mount. If not, the policy applies.
    static func protects(_ path: String) throws(FileProtectionError) -> Bool {
        if ProtectedMount.holding(path) != nil { return true }
        try FileProtection.refuseOrGoOn(path)
        return false
    }

    /// The same for a copy of a protected entry.
    private static func protectsCopy(of source: String, at target: String) throws -> Bool {
        if ProtectedMount.holdingEntry(target) != nil { return true }
        try Leaving.ask(source, to: target)
        return false
    }

    /// Sets the class of a file, which gets a new key if the class is stronger, or the default of a directory.
    static func set(_ type: FileProtectionType, _ path: String) throws {
        if Tightening.reencrypt(path, to: type) { return }
        do throws(ProtectionSystemError) {
            do throws(ProtectionSystemError) {
                try ProtectionAttribute.set(type, path)
            } catch {
                guard error.code == EACCES, try setWritable(type, path) else { throw error }
            }
        } catch {
            throw CocoaError.of(error.code, .write, path, class: type)
        }
    }
}

extension ProtectedFileManager {
    /// Sets the class of an item without write permission. xattr(7) requires that permission, so the owner adds it for
    /// a moment.
    ///
    /// - Returns: true if the missing permission was the cause of the failure.
    private static func setWritable(_ type: FileProtectionType, _ path: String) throws(ProtectionSystemError) -> Bool {
        // One descriptor is used throughout, so that it is always the same file.
        let descriptor = unsafe open(path, pfs_O_PATH | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_uid == geteuid(), status.st_mode & S_IWUSR == 0 else {
            return false
        }
        let mode = status.st_mode & 0o7777
        let item = "/proc/self/fd/\(descriptor)"
        guard unsafe chmod(item, mode | S_IWUSR) == 0 else { throw .last("chmod") }
        defer { unsafe chmod(item, mode) }
        try ProtectionAttribute.set(type, item)
        return true
    }
}

extension Error {
    /// The error of a copy. Foundation says that nothing could be written, also if the source is locked.
    fileprivate func ofReading(_ source: String) -> any Error {
        let isLocked = posixCode(self) == EACCES && LockedPath.type(source, .read) != nil
        return isLocked ? CocoaError.of(EACCES, .read, source) : self
    }
}

extension FileProtectionType {
    /// The class for a value that a program gives: a `FileProtectionType`, a `URLFileProtection` or a raw value.
    static func of(_ value: Any) throws(FileProtectionError) -> FileProtectionType {
        if let type = value as? FileProtectionType, ProtectionClassName.attributeValue(of: type) != nil { return type }
        if let type = value as? URLFileProtection { return try of(type.rawValue) }
        if let text = value as? String, let type = ProtectionClassName.type(ofAttributeValue: text) { return type }
        throw .unknownClass(value: (value as? FileProtectionType)?.rawValue ?? "\(value)")
    }

    /// The option of `Data.write` that names the class.
    var writingOption: Data.WritingOptions {
        if self == .complete { return .completeFileProtection }
        if self == .completeUnlessOpen { return .completeFileProtectionUnlessOpen }
        if self == .completeWhenUserInactive { return .completeFileProtectionWhenUserInactive }
        if self == FileProtectionType.none { return .noFileProtection }
        return .completeFileProtectionUntilFirstUserAuthentication
    }
}
