// The names of LocalAuthentication that keychain programs use. Nobody can be asked here, and every question says so.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// How a person would be known (Apple's `LAPolicy`). None can be evaluated here.
public enum LAPolicy: Int, Sendable {
    /// By a fingerprint or a face.
    case deviceOwnerAuthenticationWithBiometrics = 1
    /// By a fingerprint, a face or the passcode.
    case deviceOwnerAuthentication = 2
}

/// Why a person was not known (Apple's `LAError`).
public struct LAError: CustomNSError, Hashable, Sendable {
    /// The reasons, with Apple's numbers. The library gives `passcodeNotSet` and `biometryNotAvailable`, and
    /// `invalidContext` after `LAContext.invalidate`.
    public enum Code: Int, Sendable {
        /// The person did not prove it.
        case authenticationFailed = -1
        /// The person refused.
        case userCancel = -2
        /// The person wants to type a password.
        case userFallback = -3
        /// The system ended the question.
        case systemCancel = -4
        /// There is no passcode.
        case passcodeNotSet = -5
        /// There is no reader of fingerprints or faces.
        case biometryNotAvailable = -6
        /// No fingerprint or face is enrolled.
        case biometryNotEnrolled = -7
        /// There were too many wrong tries.
        case biometryLockout = -8
        /// The program ended the question.
        case appCancel = -9
        /// The context has been invalidated.
        case invalidContext = -10
        /// A question was not allowed.
        case notInteractive = -1004
    }

    /// Why it was refused.
    public let code: Code

    /// An error with a reason.
    public init(_ code: Code) { self.code = code }

    /// The domain of these errors.
    public static let errorDomain = "com.apple.LocalAuthentication"
    /// The reason's number.
    public var errorCode: Int { code.rawValue }

    /// The person did not prove it.
    public static let authenticationFailed = Code.authenticationFailed
    /// The person refused.
    public static let userCancel = Code.userCancel
    /// There is no passcode.
    public static let passcodeNotSet = Code.passcodeNotSet
    /// There is no reader of fingerprints or faces.
    public static let biometryNotAvailable = Code.biometryNotAvailable
    /// The context has been invalidated.
    public static let invalidContext = Code.invalidContext
}

/// What a reader of fingerprints or faces is (Apple's `LABiometryType`).
public enum LABiometryType: Int, Sendable {
    /// There is none.
    case none = 0
    /// For fingerprints.
    case touchID = 1
    /// For faces.
    case faceID = 2
    /// For eyes.
    case opticID = 4
}

/// What a program gives a context in place of a person (Apple's `LACredentialType`).
public enum LACredentialType: Int, Sendable {
    /// A password of the program's own.
    case applicationPassword = 0
}

/// What a program passes for `kSecUseAuthenticationContext` (Apple's `LAContext`). No item needs a person, so its settings
/// change no answer of the keychain. A policy can never be evaluated, so a program that asks first falls back to its other
/// way.
open class LAContext: NSObject {
    /// Whether a question would be refused.
    open var interactionNotAllowed = false
    /// The text of a question.
    open var localizedReason = ""
    /// The title of the button that asks for a password in place of a finger.
    open var localizedFallbackTitle: String?
    /// The title of the button that refuses.
    open var localizedCancelTitle: String?
    /// For how many seconds an unlock of the device counts as an answer.
    open var touchIDAuthenticationAllowableReuseDuration: TimeInterval = 0
    /// What reads fingerprints or faces: nothing.
    open var biometryType: LABiometryType { .none }
    /// What tells whether other fingers or faces are enrolled than before: nil, because none are.
    open var evaluatedPolicyDomainState: Data? { nil }
    private var isInvalid = false

    /// Gives the context a password of the program's own. No item here can have one, so it is not kept.
    ///
    /// - Returns: true if there is nothing to keep, as for nil.
    open func setCredential(_ credential: Data?, type: LACredentialType) -> Bool { credential == nil }

    /// Whether the context has a credential: never.
    open func isCredentialSet(_ type: LACredentialType) -> Bool { false }

    /// Ends the context.
    open func invalidate() { isInvalid = true }

    /// Whether a policy can be evaluated: never.
    ///
    /// - Parameters:
    ///   - policy: how the person would be known.
    ///   - error: receives the reason.
    open func canEvaluatePolicy(_ policy: LAPolicy, error: UnsafeMutablePointer<NSError?>?) -> Bool {
        let reason = reason(policy)
        // The caller's pointer is valid during the call, as for every inout argument.
        if let error = unsafe error {
            unsafe error.pointee = NSError(domain: LAError.errorDomain, code: reason.rawValue)
        }
        return false
    }

    /// Answers that the person is not known, on another thread.
    ///
    /// - Parameters:
    ///   - policy: how the person would be known.
    ///   - localizedReason: the text of the question, which is not asked.
    ///   - reply: receives false and the reason.
    open func evaluatePolicy(
        _ policy: LAPolicy, localizedReason: String, reply: @escaping @Sendable (Bool, (any Error)?) -> Void
    ) {
        let error = LAError(reason(policy))
        DispatchQueue.global().async { reply(false, error) }
    }

    /// Throws the reason why the person is not known.
    ///
    /// - Parameters:
    ///   - policy: how the person would be known.
    ///   - localizedReason: the text of the question, which is not asked.
    open func evaluatePolicy(_ policy: LAPolicy, localizedReason: String) async throws -> Bool {
        throw LAError(reason(policy))
    }

    private func reason(_ policy: LAPolicy) -> LAError.Code {
        if isInvalid { return .invalidContext }
        return policy == .deviceOwnerAuthentication ? .passcodeNotSet : .biometryNotAvailable
    }
}
