// Questions that a program can ask the library itself.

/// Data protection for programs that were written for an iPhone. See `docs/program/porting.md`.
public enum FileProtection {
    /// Whether protection classes have an effect at this place: true for a path on a protected mount. The file need not
    /// exist.
    public static func isSupported(at url: URL) -> Bool {
        url.isFileURL && ProtectedMount.holding(url.path) != nil
    }
}
