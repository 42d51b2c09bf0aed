// One security key that is open: which credentials it has, a new credential, and the secret of one.

internal import CFido2
package import HostSystem
package import SodiumKit
package import VolumeFormat

/// A security key, open until the end of this value's life. One thread uses it.
///
/// libfido2 holds the PIN's hash, the secret that it shares with the key, and the answer in ordinary memory, and wipes each
/// before it frees it. What its ciphers leave on the stack is not wiped. The PIN itself and the copy of the answer are in locked
/// memory.
@safe package final class SecurityKeyDevice {
    /// Where a key is.
    package enum Place: Sendable {
        /// A device file, as `ConnectedKey` gives it.
        case device(HostPath)
        /// A Unix socket, on which the reports of CTAPHID go in both directions.
        case socket(HostPath)
    }

    /// Whether the key has a credential.
    package enum Knowledge: Sendable {
        /// It has it.
        case known
        /// It has not.
        case unknown
        /// It does not say so without a PIN or a touch.
        case unsaid
    }

    /// How long a person may take for a touch, and a key for everything else, in milliseconds.
    private static let (forTouch, forAnswer): (Int32, Int32) = (60_000, 5_000)
    /// The longest PIN, in bytes.
    private static let longestPIN = 63

    private let library: FIDOLibrary
    private let device: OpaquePointer

    /// Opens a key that has the extension hmac-secret.
    package init(_ place: Place) throws(SecurityKeyError) {
        let library = try FIDOLibrary.prepared()
        let made = library.call.dev_new()
        guard let device = unsafe made else { throw .memory(.outOfMemory) }
        self.library = library
        unsafe self.device = device
        let path: HostPath
        switch place {
        case .device(let file): path = file
        case .socket(let file):
            path = file
            var functions = SocketTransport.functions
            guard unsafe library.setTransport(of: device, &functions) == PFS_FIDO_OK else { throw .cannotOpen }
        }
        _ = unsafe library.call.dev_set_timeout(device, Self.forAnswer)
        // A failure here ends this value, and `deinit` closes what is open.
        guard unsafe path.withCString({ unsafe library.call.dev_open(device, $0) }) == PFS_FIDO_OK else {
            throw .cannotOpen
        }
        guard unsafe library.call.dev_is_fido2(device), try hasHMACSecret() else { throw .unsuitable }
    }

    deinit {
        var owned: OpaquePointer? = unsafe device
        _ = unsafe library.call.dev_close(owned)
        unsafe library.call.dev_free(&owned)
    }

    private func hasHMACSecret() throws(SecurityKeyError) -> Bool {
        var info = library.call.cbor_info_new()
        guard unsafe info != nil else { throw .memory(.outOfMemory) }
        defer { unsafe library.call.cbor_info_free(&info) }
        try check(unsafe library.call.dev_get_cbor_info(device, info))
        guard let names = unsafe library.call.cbor_info_extensions_ptr(info) else { return false }
        return unsafe (0..<library.call.cbor_info_extensions_len(info)).contains { index in
            unsafe names[index].map { unsafe String(cString: $0) == "hmac-secret" } ?? false
        }
    }

    /// Whether a PIN is set on the key.
    package var hasPIN: Bool { unsafe library.call.dev_has_pin(device) }

    /// Whether the key has the credential of a slot. The person at it notices nothing.
    package func knows(_ key: SlotSecurityKey) throws(SecurityKeyError) -> Knowledge {
        let request = try AssertionRequest(library, key.credential)
        try check(unsafe library.call.assert_set_up(request.assertion, UInt32(PFS_FIDO_FALSE)))
        _ = unsafe library.call.dev_set_timeout(device, Self.forAnswer)
        switch Int(unsafe library.call.dev_get_assert(device, request.assertion, nil)) {
        case PFS_FIDO_OK: return .known
        case PFS_FIDO_NO_CREDENTIALS, PFS_FIDO_INVALID_CREDENTIAL: return .unknown
        case PFS_FIDO_TX, PFS_FIDO_RX: throw .noAnswer
        default: return .unsaid
        }
    }

    /// Makes a credential with the extension hmac-secret, after a touch.
    ///
    /// - Parameter pin: the PIN. Nil does not use one.
    /// - Returns: the credential's ID.
    package func makeCredential(pin: borrowing SecretBytes?) throws(SecurityKeyError) -> [UInt8] {
        var credential = library.call.cred_new()
        guard unsafe credential != nil else { throw .memory(.outOfMemory) }
        defer { unsafe library.call.cred_free(&credential) }
        // The owner has no account, so the ID is a new one for each credential.
        let challenge: InlineArray<32, UInt8> = randomInlineBytes()
        let identity: InlineArray<32, UInt8> = randomInlineBytes()
        let party = SlotSecurityKey.relyingParty
        try check(unsafe library.call.cred_set_type(credential, Int32(PFS_FIDO_ES256)))
        try check(
            unsafe challenge.span.withUnsafeBufferPointer {
                unsafe library.call.cred_set_clientdata_hash(credential, $0.baseAddress, $0.count)
            })
        try check(unsafe library.call.cred_set_rp(credential, party, party))
        try check(
            unsafe identity.span.withUnsafeBufferPointer {
                unsafe library.call.cred_set_user(credential, $0.baseAddress, $0.count, party, nil, nil)
            })
        try check(unsafe library.call.cred_set_extensions(credential, Int32(PFS_FIDO_HMAC_SECRET)))
        try check(unsafe library.call.cred_set_rk(credential, UInt32(PFS_FIDO_FALSE)))
        try unsafe run(pin) { unsafe library.call.dev_make_cred(device, credential, $0) }
        let count = unsafe library.call.cred_id_len(credential)
        guard let id = unsafe library.call.cred_id_ptr(credential), SlotSecurityKey.credentialLengths.contains(count)
        else { throw .badAnswer("credential ID") }
        return unsafe Array(UnsafeBufferPointer(start: id, count: count))
    }

    /// The 32 bytes that the key gives for a slot's credential and salt, after a touch.
    ///
    /// - Parameter pin: the PIN, if and only if the slot uses one: the key gives another secret without it.
    package func secret(
        _ key: SlotSecurityKey, pin: borrowing SecretBytes?
    ) throws(SecurityKeyError) -> SecretBytes {
        let request = try AssertionRequest(library, key.credential)
        try check(unsafe library.call.assert_set_up(request.assertion, UInt32(PFS_FIDO_TRUE)))
        try check(unsafe library.call.assert_set_extensions(request.assertion, Int32(PFS_FIDO_HMAC_SECRET)))
        try check(
            unsafe key.salt.span.withUnsafeBufferPointer {
                unsafe library.call.assert_set_hmac_salt(request.assertion, $0.baseAddress, $0.count)
            })
        try unsafe run(pin) { unsafe library.call.dev_get_assert(device, request.assertion, $0) }
        let count = unsafe library.call.assert_hmac_secret_len(request.assertion, 0)
        guard unsafe library.call.assert_count(request.assertion) == 1, count == SlotSecurityKey.saltLength,
            let bytes = unsafe library.call.assert_hmac_secret_ptr(request.assertion, 0)
        else { throw .badAnswer("hmac-secret") }
        do throws(SodiumError) {
            return try SecretBytes(copying: unsafe Span(_unsafeStart: bytes, count: count))
        } catch { throw .memory(error) }
    }

    /// Runs a request that waits for a touch, with the PIN as a C string in locked memory.
    private func run(
        _ pin: borrowing SecretBytes?, _ body: (UnsafePointer<CChar>?) -> Int32
    ) throws(SecurityKeyError) {
        try requireAnswer()
        let code: Int32
        switch pin {
        case .none: code = body(nil)
        case .some(let pin):
            let text = try Self.text(pin)
            code = text.withBytes { bytes in
                unsafe bytes.withUnsafeBytes { unsafe body($0.baseAddress?.assumingMemoryBound(to: CChar.self)) }
            }
        }
        // A key that waits for a touch would blink on.
        if code == PFS_FIDO_RX { _ = unsafe library.call.dev_cancel(device) }
        if code == PFS_FIDO_PIN_INVALID { throw .wrongPIN(attemptsLeft: attemptsLeft()) }
        try check(code)
    }

    private func attemptsLeft() -> Int? {
        var count: Int32 = 0
        _ = unsafe library.call.dev_set_timeout(device, Self.forAnswer)
        guard unsafe library.call.dev_get_retry_count(device, &count) == PFS_FIDO_OK, count >= 0 else { return nil }
        return Int(count)
    }

    /// Gives up a key that does not answer, before it gets the time that a person may take for a touch.
    private func requireAnswer() throws(SecurityKeyError) {
        var count: Int32 = 0
        _ = unsafe library.call.dev_set_timeout(device, Self.forAnswer)
        let code = unsafe library.call.dev_get_retry_count(device, &count)
        // A key without PINs gives another error.
        if code == PFS_FIDO_RX || code == PFS_FIDO_TX { throw .noAnswer }
        _ = unsafe library.call.dev_set_timeout(device, Self.forTouch)
    }

    private static func text(_ pin: borrowing SecretBytes) throws(SecurityKeyError) -> SecretBytes {
        let count = pin.byteCount
        guard count > 0, count <= longestPIN else { throw .unusablePIN }
        guard pin.withBytes({ bytes in bytes.indices.allSatisfy { bytes[$0] != 0 } }) else { throw .unusablePIN }
        do throws(SodiumError) {
            var text = try SecretBytes(byteCount: count + 1)
            pin.withBytes { bytes in text.withMutableBytes { $0.copy(bytes, to: 0) } }
            return text
        } catch { throw .memory(error) }
    }

    private func check(_ code: Int32) throws(SecurityKeyError) {
        switch Int(code) {
        case PFS_FIDO_OK: return
        case PFS_FIDO_NO_CREDENTIALS, PFS_FIDO_INVALID_CREDENTIAL: throw .unknownCredential
        case PFS_FIDO_PIN_NOT_SET: throw .noPIN
        case PFS_FIDO_PIN_REQUIRED: throw .pinNeeded
        case PFS_FIDO_PIN_INVALID: throw .wrongPIN(attemptsLeft: nil)
        case PFS_FIDO_PIN_AUTH_BLOCKED: throw .pinPaused
        case PFS_FIDO_PIN_BLOCKED: throw .pinBlocked
        case PFS_FIDO_ACTION_TIMEOUT, PFS_FIDO_USER_ACTION_TIMEOUT: throw .noTouch
        case PFS_FIDO_OPERATION_DENIED, PFS_FIDO_KEEPALIVE_CANCEL: throw .denied
        case PFS_FIDO_TX, PFS_FIDO_RX: throw .noAnswer
        case PFS_FIDO_UNSUPPORTED_EXTENSION, PFS_FIDO_UNSUPPORTED_OPTION, PFS_FIDO_UNSUPPORTED_ALGORITHM:
            throw .unsuitable
        default:
            let name = unsafe library.call.strerr(code).map { unsafe String(cString: $0) }
            throw .badAnswer(name ?? "\(code)")
        }
    }
}

/// A request for an assertion of one credential, freed and wiped at the end of its life.
@safe private final class AssertionRequest {
    let assertion: OpaquePointer
    private let library: FIDOLibrary

    init(_ library: FIDOLibrary, _ credential: [UInt8]) throws(SecurityKeyError) {
        let made = library.call.assert_new()
        guard let assertion = unsafe made else { throw .memory(.outOfMemory) }
        self.library = library
        unsafe self.assertion = assertion
        // The signature is not used, so nothing depends on what is signed.
        let challenge: InlineArray<32, UInt8> = randomInlineBytes()
        let codes = unsafe [
            challenge.span.withUnsafeBufferPointer {
                unsafe library.call.assert_set_clientdata_hash(assertion, $0.baseAddress, $0.count)
            },
            library.call.assert_set_rp(assertion, SlotSecurityKey.relyingParty),
            library.call.assert_allow_cred(assertion, credential, credential.count),
        ]
        guard codes.allSatisfy({ $0 == PFS_FIDO_OK }) else { throw .memory(.outOfMemory) }
    }

    deinit {
        var owned: OpaquePointer? = unsafe assertion
        unsafe library.call.assert_free(&owned)
    }
}
