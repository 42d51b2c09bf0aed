// FileManager: attributes with a class, and what creates, copies, moves and replaces files keeping theirs.

import CLinuxShim
import Glibc
import PlainFoundation

/// What a program means by FileManager.
public typealias FileManager = ProtectedFileManager

/// Foundation's FileManager, with classes that mean something on a protected mount.
open class ProtectedFileManager: Foundation.FileManager, @unchecked Sendable {
    private static let shared = ProtectedFileManager()

    /// The one that the process shares.
    open override class var `default`: ProtectedFileManager { shared }

    /// A file manager with a delegate of its own.
    public override init() { super.init() }

    /// Foundation's attributes, and `.protectionKey` where the item has a class: of a directory its default for new entries.
    ///
    /// An item that the permissions do not let this user read says no class.
    open override func attributesOfItem(atPath path: String) throws -> [FileAttributeKey: Any] {
        var attributes = try explaining { try super.attributesOfItem(atPath: path) }
        guard attributes[.type] as? FileAttributeType != .typeSymbolicLink else { return attributes }
        do throws(ProtectionSystemError) {
            attributes[.protectionKey] = try ProtectionAttribute.get(path)
        } catch {
            // Attributes of the file's own are closed to whoever may not read it; what is asked for otherwise is not.
            guard error.code == EACCES else { throw CocoaError.of(error.code, .read, path) }
        }
        return attributes
    }

    /// Sets the class that `.protectionKey` gives, then the other attributes.
    ///
    /// - Throws: `CocoaError` 513 where the old class or the new one is closed; `FileProtectionError.notProtected` off a
    ///   protected mount, as the policy says, and `unknownClass` for another value: then nothing is set.
    open override func setAttributes(_ attributes: [FileAttributeKey: Any], ofItemAtPath path: String) throws {
        // The class first: without write permission, which the others may take away, it cannot be set.
        if let type = try ProtectedFileManager.type(in: attributes), try ProtectedFileManager.protects(path) {
            try ProtectedFileManager.set(type, path)
        }
        let rest = attributes.filter { $0.key != .protectionKey }
        if !rest.isEmpty { try super.setAttributes(rest, ofItemAtPath: path) }
    }

    /// Creates a file, or replaces its content; with `.protectionKey` the class is there before the first byte.
    ///
    /// - Returns: whether it is there. `Data.write(to:options:)` says why not.
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

    /// Creates a directory; `.protectionKey` becomes its default for new entries, from the first moment, and that of each
    /// directory that has to be made above it. Works in every state of the volume.
    ///
    /// - Throws: Foundation's errors; `FileProtectionError.notProtected` off a protected mount, before anything is made.
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
                // Somebody else was faster.
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

    /// Creates a directory: see `createDirectory(atPath:withIntermediateDirectories:attributes:)`.
    open override func createDirectory(
        at url: URL, withIntermediateDirectories intermediate: Bool, attributes: [FileAttributeKey: Any]? = nil
    ) throws {
        guard url.isFileURL else {
            return try super.createDirectory(at: url, withIntermediateDirectories: intermediate, attributes: attributes)
        }
        try createDirectory(atPath: url.path, withIntermediateDirectories: intermediate, attributes: attributes)
    }

    /// Copies a file or a tree; every copy has the class of what it is a copy of. The delegate is asked, as by Foundation.
    ///
    /// - Throws: `CocoaError` 257 where a source is locked, 513 where its class is closed for new files, 516 where the
    ///   target is there; `FileProtectionError.notProtected` where the target is on no protected mount, as the policy says.
    open override func copyItem(atPath source: String, toPath target: String) throws {
        guard ProtectedMount.holdingEntry(source) != nil,
            try ProtectedFileManager.protectsCopy(of: source, at: target)
        else {
            return try super.copyItem(atPath: source, toPath: target)
        }
        try ProtectedCopy.copy(source, to: target, asking: self)
    }

    /// Copies a file or a tree: see `copyItem(atPath:toPath:)`.
    open override func copyItem(at source: URL, to target: URL) throws {
        guard source.isFileURL, target.isFileURL else { return try super.copyItem(at: source, to: target) }
        try copyItem(atPath: source.path, toPath: target.path)
    }

    /// Moves a file or a tree, which keeps its classes; to another protected mount as a copy.
    ///
    /// - Throws: Foundation's errors, and to another mount those of `copyItem(atPath:toPath:)`.
    open override func moveItem(atPath source: String, toPath target: String) throws {
        guard let mount = ProtectedMount.holdingEntry(source), mount != ProtectedMount.holdingEntry(target) else {
            return try explaining { try super.moveItem(atPath: source, toPath: target) }
        }
        let (from, to) = (URL(fileURLWithPath: source), URL(fileURLWithPath: target))
        guard delegate?.fileManager(self, shouldMoveItemAt: from, to: to) ?? true else { return }
        do {
            // Without the delegate: what it kept out of the copy would be lost with the source.
            if try ProtectedFileManager.protectsCopy(of: source, at: target) {
                try ProtectedCopy.copy(source, to: target, asking: nil)
            } else {
                try Foundation.FileManager().copyItem(atPath: source, toPath: target)
            }
            try Foundation.FileManager().removeItem(atPath: source)
        } catch {
            guard delegate?.fileManager(self, shouldProceedAfterError: error, movingItemAt: from, to: to) ?? false
            else {
                throw error
            }
        }
    }

    /// Moves a file or a tree: see `moveItem(atPath:toPath:)`.
    open override func moveItem(at source: URL, to target: URL) throws {
        guard source.isFileURL, target.isFileURL else { return try super.moveItem(at: source, to: target) }
        try moveItem(atPath: source.path, toPath: target.path)
    }

    /// Nil: there is no iCloud here, as on a device where nobody is signed in.
    open func url(forUbiquityContainerIdentifier identifier: String?) -> URL? { nil }

    /// The class that attributes ask for; raw values are taken as well.
    static func type(in attributes: [FileAttributeKey: Any]) throws(FileProtectionError) -> FileProtectionType? {
        guard let value = attributes[.protectionKey] else { return nil }
        return try FileProtectionType.of(value)
    }

    /// Whether there is protection at a path; where there is none, what the policy says.
    static func protects(_ path: String) throws(FileProtectionError) -> Bool {
        if ProtectedMount.holding(path) != nil { return true }
        try FileProtection.refuseOrGoOn(path)
        return false
    }

    /// The same for an entry made from one that is protected. A link is no more than its text, wherever it leads.
    private static func protectsCopy(of source: String, at target: String) throws(FileProtectionError) -> Bool {
        if ProtectedMount.holdingEntry(target) != nil { return true }
        var status = stat()
        let isLink = unsafe lstat(source, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
        if !isLink { try FileProtection.refuseOrGoOn(target) }
        return false
    }

    static func set(_ type: FileProtectionType, _ path: String) throws {
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
    /// Sets the class of an item that its owner may not write: xattr(7) asks for that permission, which the owner may give.
    ///
    /// - Returns: whether that was what was missing.
    private static func setWritable(_ type: FileProtectionType, _ path: String) throws(ProtectionSystemError) -> Bool {
        // By one descriptor, so that it is the same file all the time.
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

extension FileProtectionType {
    /// A class from what programs give for one: the type itself, a URLFileProtection, a raw value.
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
        if self == FileProtectionType.none { return .noFileProtection }
        return .completeFileProtectionUntilFirstUserAuthentication
    }
}
