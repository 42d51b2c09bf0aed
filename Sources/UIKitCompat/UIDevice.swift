// The device, as far as code that protects data asks for it.

public import FileProtection

/// The machine (Apple's `UIDevice`), with the members that code of applications uses to name where data comes from.
public final class UIDevice: Sendable {
    /// This machine.
    public static let current = UIDevice()

    /// The host name.
    public let name = kernel("hostname") ?? "localhost"
    /// "Linux".
    public let systemName = kernel("ostype") ?? "Linux"
    /// The release of the kernel.
    public let systemVersion = kernel("osrelease") ?? ""
    /// The word for a machine of this kind.
    public let model = "PC"
    /// The same word, which is not translated.
    public var localizedModel: String { model }

    /// Always nil, as on an iPhone before its first unlock. The ID of the machine is not for programs to give away: keep a
    /// random one in the keychain.
    public var identifierForVendor: UUID? { nil }

    private static func kernel(_ word: String) -> String? {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/\(word)", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
