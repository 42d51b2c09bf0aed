// What a program can ask of the library itself.

/// Data protection for programs written for an iPhone: see `docs/porting.md`.
public enum FileProtection {
    /// Whether a protection class means something at this place: a file there, or one that would be made there.
    public static func isSupported(at url: URL) -> Bool {
        url.isFileURL && ProtectedMount.holding(url.path) != nil
    }
}
