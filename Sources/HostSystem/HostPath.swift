// Paths of Linux. They are bytes without NUL and need not be UTF-8.

import CLibrary

/// A path of the host, in any bytes but NUL.
package struct HostPath: Sendable, Hashable, CustomStringConvertible {
    /// The bytes, without a terminating NUL.
    package let bytes: [UInt8]

    /// Takes `bytes` up to the first NUL.
    package init(bytes: some Collection<UInt8>) {
        self.bytes = Array(bytes.prefix { $0 != 0 })
    }

    /// Takes the UTF-8 of `text` up to the first NUL.
    package init(_ text: String) { self.init(bytes: text.utf8) }

    /// Runs `body` with the path as a C string that lives as long as the call.
    package func withCString<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let terminated = bytes.map { CChar(bitPattern: $0) } + [0]
        // The span's memory lives until the end of this scope, and ends with NUL.
        let span = terminated.span
        var outcome: Swift.Result<Result, Failure>?
        unsafe span.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            do throws(Failure) { outcome = .success(unsafe try body(base)) } catch { outcome = .failure(error) }
        }
        guard let result = outcome.take() else { preconditionFailure("a terminated string has a base address") }
        return try result.get()
    }

    /// The path for a person. The bytes of characters that control a terminal, end a line or turn the direction of text appear
    /// as `\xHH`.
    package var description: String {
        // Most paths are of these characters alone, and need no look at each.
        if bytes.allSatisfy({ (0x20..<0x7F).contains($0) }) { return String(decoding: bytes, as: UTF8.self) }
        var text = ""
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            guard Self.isEscaped(scalar) else {
                text.unicodeScalars.append(scalar)
                continue
            }
            for byte in String(scalar).utf8 {
                let digits = String(byte, radix: 16, uppercase: true)
                text += digits.count < 2 ? "\\x0\(digits)" : "\\x\(digits)"
            }
        }
        return text
    }

    private static func isEscaped(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: scalar.properties.isBidiControl
        }
    }

    /// The path in a URI, escaped as desktops do (g_filename_to_uri).
    package var inURI: [UInt8] {
        let plain = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/".utf8)
        let digits = Array("0123456789ABCDEF".utf8)
        return bytes.flatMap { byte in
            plain.contains(byte) ? [byte] : [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
    }

    /// True for a path that starts at the root.
    package var isAbsolute: Bool { bytes.first == UInt8(ascii: "/") }

    /// Adds a component.
    package func appending(_ component: String) -> HostPath { appending(bytes: Array(component.utf8)) }

    /// Adds a component given as bytes.
    package func appending(bytes component: [UInt8]) -> HostPath {
        if bytes.isEmpty { return HostPath(bytes: component) }
        let slash: [UInt8] = bytes.last == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]
        return HostPath(bytes: bytes + slash + component)
    }

    /// The relative path of these names.
    package init(components: some Sequence<[UInt8]>) {
        self.init(bytes: Array(components.joined(separator: [UInt8(ascii: "/")])))
    }

    /// The names between the slashes.
    package var components: [[UInt8]] { bytes.split(separator: UInt8(ascii: "/")).map { Array($0) } }

    /// An absolute path without `.`, `..` (by text) and doubled slashes.
    package var simplified: HostPath {
        var names: [[UInt8]] = []
        for name in components where !name.elementsEqual(".".utf8) {
            if name.elementsEqual("..".utf8) { _ = names.popLast() } else { names.append(name) }
        }
        return HostPath("/").appending(bytes: HostPath(components: names).bytes)
    }

    /// All components but the last: "/" for an entry of the root, "." for a name without a slash.
    package var parent: HostPath {
        var end = bytes.count
        while end > 1, bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
        while end > 0, bytes[end - 1] != UInt8(ascii: "/") { end -= 1 }
        if end == 0 { return HostPath(".") }
        while end > 1, bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
        return HostPath(bytes: bytes[..<end])
    }

    /// The last component, without trailing slashes.
    package var lastComponent: HostPath {
        var end = bytes.count
        while end > 1, bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
        var start = end
        while start > 0, bytes[start - 1] != UInt8(ascii: "/") { start -= 1 }
        return HostPath(bytes: bytes[start..<end])
    }

    /// True if this absolute resolved path is `other` or a path below it.
    package func isInside(_ other: HostPath) -> Bool {
        if other.bytes == [UInt8(ascii: "/")] { return true }
        return bytes.starts(with: other.bytes)
            && (bytes.count == other.bytes.count || bytes[other.bytes.count] == UInt8(ascii: "/"))
    }

    /// The absolute path without links, `.` and `..` (realpath(3)).
    package func resolved() throws(SystemError) -> HostPath {
        guard let text = unsafe withCString({ unsafe realpath($0, nil) }) else {
            throw .last("realpath", description)
        }
        defer { unsafe free(text) }
        return HostPath(
            bytes: unsafe UnsafeBufferPointer(start: text, count: strlen(text)).map { UInt8(bitPattern: $0) })
    }

    /// The absolute path of the object itself: only its parent is resolved, so a symbolic link stays one. The object may be
    /// missing. A path that ends with a slash, `.` or `..` names a directory and is resolved whole.
    package func resolvedObject() throws(SystemError) -> HostPath {
        let last = lastComponent
        if bytes.last == UInt8(ascii: "/") || last == HostPath(".") || last == HostPath("..") { return try resolved() }
        return try parent.resolved().appending(bytes: last.bytes)
    }

    /// The path made absolute by the current directory, without resolving links. For paths that must not be accessed,
    /// such as a dead mount.
    package func absolute() throws(SystemError) -> HostPath {
        if isAbsolute { return self }
        guard let text = unsafe getcwd(nil, 0) else { throw .last("getcwd") }
        defer { unsafe free(text) }
        let here = HostPath(
            bytes: unsafe UnsafeBufferPointer(start: text, count: strlen(text)).map { UInt8(bitPattern: $0) })
        // The directories `.` in front say nothing.
        var rest = bytes[...]
        while rest.starts(with: "./".utf8) { rest = rest.dropFirst(2).drop { $0 == UInt8(ascii: "/") } }
        return rest.isEmpty || rest.elementsEqual(".".utf8) ? here : here.appending(bytes: Array(rest))
    }
}

extension HostPath {
    /// Whether the text matches a pattern of the shell (fnmatch(3)), in which `*` also matches slashes.
    package func matches(_ pattern: HostPath) -> Bool { matches(pattern, 0) }

    /// Whether the path, or a directory above it, matches a pattern of the shell, in which `*` does not match slashes.
    package func lies(in pattern: HostPath) -> Bool {
        // FNM_LEADING_DIR (fnmatch.h) is not imported.
        matches(pattern, FNM_PATHNAME | 1 << 3)
    }

    private func matches(_ pattern: HostPath, _ flags: Int32) -> Bool {
        unsafe pattern.withCString { pattern in unsafe withCString { unsafe fnmatch(pattern, $0, flags) } } == 0
    }
}
