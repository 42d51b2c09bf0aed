// SecRandomCopyBytes, from the kernel's generator.

internal import SodiumKit

/// A source of random bytes. The only one is the system's, which is nil.
public enum SecRandomRef: Sendable {}

/// The system's source of random bytes.
public let kSecRandomDefault: SecRandomRef? = nil

/// Fills memory with random bytes that are fit for keys (Apple's `SecRandomCopyBytes`).
///
/// - Parameters:
///   - source: `kSecRandomDefault`.
///   - count: how many bytes.
///   - bytes: where they go.
/// - Returns: `errSecSuccess`, or `errSecParam` if `count` is negative.
@discardableResult
public func SecRandomCopyBytes(_ source: SecRandomRef?, _ count: Int, _ bytes: UnsafeMutableRawPointer) -> Int32 {
    guard count >= 0 else { return errSecParam }
    // The caller promises room for `count` bytes.
    let room = unsafe UnsafeMutableRawBufferPointer(start: bytes, count: count)
    var span = unsafe MutableSpan<UInt8>(_unsafeBytes: room)
    randomBytes(into: &span)
    return errSecSuccess
}
