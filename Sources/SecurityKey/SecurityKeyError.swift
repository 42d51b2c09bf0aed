// What can go wrong with a security key. The command line makes sentences of it.

package import SodiumKit

/// A failure of a security key, or of the library that talks to it.
package enum SecurityKeyError: Error, Equatable, Sendable {
    /// libfido2 is not installed, or lacks a function.
    case noLibrary
    /// Nothing answers as a security key at this place, or it cannot be opened.
    case cannotOpen
    /// The key does not speak FIDO2, or lacks the extension hmac-secret.
    case unsuitable
    /// The key has no such credential.
    case unknownCredential
    /// A PIN is needed, but none is set on the key.
    case noPIN
    /// The key does nothing without a PIN.
    case pinNeeded
    /// The PIN is wrong. The key accepts so many more attempts, if it says how many.
    case wrongPIN(attemptsLeft: Int?)
    /// Too many wrong PINs in a row: the key must be plugged in again.
    case pinPaused
    /// The key accepts no PIN any more. Only a reset, which destroys its credentials, helps.
    case pinBlocked
    /// The PIN cannot be one: it is empty, too long, or has a zero byte.
    case unusablePIN
    /// Nobody touched the key in time.
    case noTouch
    /// The key refused, because the person at it did.
    case denied
    /// The key did not answer in time, or its connection broke.
    case noAnswer
    /// The answer is not one of CTAP, or not to the question.
    case badAnswer(String)
    /// There is no memory for the request.
    case memory(SodiumError)
}
