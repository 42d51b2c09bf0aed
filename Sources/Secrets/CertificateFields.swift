// Certificates: the fields of X.509 that a keychain finds them by. Nothing of a certificate is verified.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// A certificate (Apple's `SecCertificate`): its bytes, as they are stored. It is not verified.
public final class SecCertificate: Hashable, Sendable {
    let data: Data
    let fields: CertificateFields

    init?(_ data: Data) {
        guard let fields = CertificateFields(Array(data)) else { return nil }
        self.data = data
        self.fields = fields
    }

    /// Whether both have the same bytes.
    public static func == (one: SecCertificate, other: SecCertificate) -> Bool { one.data == other.data }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) { hasher.combine(data) }
}

/// A certificate from its bytes (Apple's `SecCertificateCreateWithData`).
///
/// - Parameters:
///   - allocator: not used.
///   - data: the certificate in DER.
/// - Returns: nil if the bytes do not have the form of a certificate.
public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? {
    SecCertificate(data as Data)
}

/// The bytes of a certificate (Apple's `SecCertificateCopyData`).
public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData {
    certificate.data as CFData
}

/// The fields of a certificate that are attributes of its item, in DER without the outermost tag and length.
struct CertificateFields: Hashable, Sendable {
    let serial: [UInt8]
    let issuer: [UInt8]
    let subject: [UInt8]

    /// Reads the fields; nil if the bytes do not begin as X.509 says, or something follows the certificate.
    init?(_ bytes: [UInt8]) {
        var outer = Reader(bytes[...])
        guard let certificate = outer.next(Self.sequence), outer.isAtEnd else { return nil }
        var parts = Reader(certificate)
        guard let signed = parts.next(Self.sequence) else { return nil }
        var fields = Reader(signed)
        // The version is missing from certificates of version 1.
        if fields.tag == Self.version, fields.next(Self.version) == nil { return nil }
        guard let serial = fields.next(Self.integer), fields.next(Self.sequence) != nil,
            let issuer = fields.next(Self.sequence), fields.next(Self.sequence) != nil,
            let subject = fields.next(Self.sequence), fields.next(Self.sequence) != nil,
            parts.next(Self.sequence) != nil, parts.next(Self.bitString) != nil, parts.isAtEnd
        else { return nil }
        self.serial = Array(serial)
        self.issuer = Array(issuer)
        self.subject = Array(subject)
    }

    private static let integer: UInt8 = 0x02
    private static let bitString: UInt8 = 0x03
    private static let sequence: UInt8 = 0x30
    private static let version: UInt8 = 0xA0

    /// Reads values of DER one after the other.
    private struct Reader {
        private var rest: ArraySlice<UInt8>

        init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

        var isAtEnd: Bool { rest.isEmpty }
        var tag: UInt8? { rest.first }

        /// The content of the next value, if it has this tag and its length is written as DER requires.
        mutating func next(_ tag: UInt8) -> ArraySlice<UInt8>? {
            guard rest.popFirst() == tag, let first = rest.popFirst() else { return nil }
            var length = Int(first)
            if first >= 0x80 {
                let count = Int(first & 0x7F)
                guard (1...4).contains(count), rest.count >= count, rest.first != 0 else { return nil }
                length = rest.prefix(count).reduce(0) { $0 << 8 | Int($1) }
                guard length >= 0x80 else { return nil }
                rest = rest.dropFirst(count)
            }
            guard length <= rest.count else { return nil }
            defer { rest = rest.dropFirst(length) }
            return rest.prefix(length)
        }
    }
}
