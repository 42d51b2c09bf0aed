// Security keys on the command line: finding the one that knows a slot, asking for its PIN, and saying what it waits for.

package import CommandSupport
import HostSystem
import Keybag
package import SecurityKey
package import SodiumKit
package import VolumeFormat

/// Gets secrets from security keys.
///
/// This is the work of the command, and never of the daemon: the daemon gets the 32 bytes as it gets a passphrase.
package enum SecurityKeyInput {
    /// A new credential of a key, and what the key gives for it.
    package struct Made: ~Copyable {
        /// What the slot says of the key.
        package let key: SlotSecurityKey
        /// The secret that the key gives for it.
        package let secret: SecretBytes
    }

    /// The value of an option that means a key that is connected.
    private static let anyKey = HostPath("auto")
    /// The most slots that are tried.
    private static let most = 64
    /// The beginning of a value that names a socket.
    private static let socket = Array("socket:".utf8)

    private static func place(_ given: HostPath) -> SecurityKeyDevice.Place {
        given.bytes.starts(with: socket)
            ? .socket(HostPath(bytes: Array(given.bytes.dropFirst(socket.count)))) : .device(given)
    }

    /// What a key gives for a slot of the volume that it knows. The keys are those that `--fido2-key` names.
    static func secret(_ arguments: Arguments, _ bag: Keybag) throws(CommandFailure) -> SecretBytes {
        let slots = bag.slots.compactMap(\.securityKey)
        guard !slots.isEmpty else {
            throw .init(
                .authentication, "the volume has no slot for a security key; protectfs slot add --fido2 adds one")
        }
        // Anyone who changes the store can add slots, and each is a question to each key.
        guard slots.count <= most else {
            throw .init(
                .volume,
                "the keybag has \(slots.count) slots for security keys, and at most \(most) are tried; remove some")
        }
        var places: [SecurityKeyDevice.Place] = []
        for given in arguments.all("fido2-key") {
            places += given == anyKey ? try connected().map { .device($0.path) } : [place(given)]
        }
        var problem: CommandFailure?
        var chosen: (place: SecurityKeyDevice.Place, slot: SlotSecurityKey)?
        for place in places {
            do throws(CommandFailure) {
                let answers = try asking { () throws(SecurityKeyError) in
                    let device = try SecurityKeyDevice(place)
                    return try slots.map { (slot) throws(SecurityKeyError) in try device.knows(slot) }
                }
                if let index = answers.firstIndex(of: .known) {
                    chosen = (place, slots[index])
                    break
                }
                // It may be this one, but another one may know.
                if chosen == nil, let index = answers.firstIndex(of: .unsaid) { chosen = (place, slots[index]) }
            } catch {
                if places.count == 1 { throw error }
                problem = problem ?? error
            }
        }
        if let chosen { return try secret(of: chosen.place, chosen.slot, arguments) }
        let unknown = message(.unknownCredential)
        throw .init(unknown.code, unknown.message + (problem.map { "; one could not be asked: \($0.message)" } ?? ""))
    }

    private static func secret(
        of place: SecurityKeyDevice.Place, _ slot: SlotSecurityKey, _ arguments: Arguments
    ) throws(CommandFailure) -> SecretBytes {
        let pin = try slot.usesPIN ? pin(at: place, arguments, "fido2-pin") : nil
        return try asking { () throws(SecurityKeyError) in
            let device = try SecurityKeyDevice(place)
            tellToTouch()
            return try device.secret(slot, pin: pin)
        }
    }

    // MARK: a new key

    /// The key that `slot add --fido2` adds. It can be used, and has a PIN if one is wanted.
    package static func newDevice(_ arguments: Arguments) throws(CommandFailure) -> SecurityKeyDevice.Place {
        let given = arguments.path("fido2-device") ?? anyKey
        var found = place(given)
        if given == anyKey {
            let keys = try connected()
            guard let key = keys.first, keys.count == 1 else {
                let list = keys.map { "\($0.path)\($0.name.isEmpty ? "" : " (\($0.name))")" }.joined(separator: ", ")
                throw .init(
                    .usage, "several security keys are connected; name the one to add with --fido2-device: \(list)")
            }
            found = .device(key.path)
        }
        let place = found
        if arguments.has("no-pin"),
            let option = ["new-fido2-pin-file", "new-fido2-pin-command"].first(where: arguments.has)
        {
            throw .init(.usage, "--no-pin and --\(option) cannot be used together")
        }
        let hasPIN = try asking { () throws(SecurityKeyError) in try SecurityKeyDevice(place).hasPIN }
        if !hasPIN, !arguments.has("no-pin") {
            let failure = message(.noPIN)
            throw .init(failure.code, failure.message + ", or use --no-pin")
        }
        return place
    }

    /// Makes a credential, and asks the key for its secret.
    package static func make(_ place: SecurityKeyDevice.Place, _ arguments: Arguments) throws(CommandFailure) -> Made {
        let usesPIN = !arguments.has("no-pin")
        let pin = try usesPIN ? pin(at: place, arguments, "new-fido2-pin") : nil
        return try asking { () throws(SecurityKeyError) in
            let device = try SecurityKeyDevice(place)
            tellToTouch()
            let id = try device.makeCredential(pin: pin)
            guard let key = SlotSecurityKey(usesPIN: usesPIN, salt: randomInlineBytes(), credential: id) else {
                throw .badAnswer("credential ID")
            }
            tellToTouch()
            return Made(key: key, secret: try device.secret(key, pin: pin))
        }
    }

    // MARK: parts

    private static func connected() throws(CommandFailure) -> [ConnectedKey] {
        let keys = try asking { () throws(SecurityKeyError) in try ConnectedKey.all() }
        guard !keys.isEmpty else {
            throw .init(
                .authentication,
                "no security key is connected, or you may not open it; plug it in (fido2-token -L lists those that can be used)"
            )
        }
        return keys
    }

    /// The PIN of the key, which is asked for only if the key has one.
    ///
    /// - Parameter option: the options' name, without `-file` and `-command`.
    private static func pin(
        at place: SecurityKeyDevice.Place, _ arguments: Arguments, _ option: String
    ) throws(CommandFailure) -> SecretBytes {
        let (file, command) = (option + "-file", option + "-command")
        if arguments.has(file), arguments.has(command) {
            throw .init(.usage, "--\(file) and --\(command) cannot be used together")
        }
        let hasPIN = try asking { () throws(SecurityKeyError) in try SecurityKeyDevice(place).hasPIN }
        guard hasPIN else { throw message(.noPIN) }
        if let path = arguments.path(file) { return try CredentialInput.line(ofFile: path, option: file) }
        if let words = arguments.path(command) { return try CredentialInput.line(printedBy: words, option: command) }
        return try CredentialInput.secret(prompt: "PIN of the security key: ", option: file, what: "PIN")
    }

    private static func tellToTouch() { Output.note("protectfs: touch the security key") }

    private static func asking<Result: ~Copyable>(
        _ body: () throws(SecurityKeyError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(SecurityKeyError) { return try body() } catch { throw message(error) }
    }

    private static func message(_ error: SecurityKeyError) -> CommandFailure {
        switch error {
        case .noLibrary:
            .init(.unsupported, "security keys need libfido2, which is not installed (Debian package libfido2-1)")
        case .cannotOpen:
            .init(
                .authentication,
                "nothing answers there as a security key: it is not one, it is in use, or you may not open it (fido2-token -L lists those that can be used)"
            )
        case .unsuitable:
            .init(
                .unsupported, "the security key cannot be used: it lacks FIDO2's extension hmac-secret; use another key"
            )
        case .unknownCredential:
            .init(.authentication, "no security key that is connected has a slot of this volume; plug in the right one")
        case .noPIN: .init(.authentication, "the security key has no PIN; set one (fido2-token -S DEVICE)")
        case .pinNeeded:
            .init(.authentication, "the security key does nothing without its PIN; use a slot that was made with it")
        case .wrongPIN(let left):
            .init(.authentication, "wrong PIN of the security key" + (left.map(attempts) ?? ""))
        case .pinPaused:
            .init(
                .authentication,
                "the security key takes no PIN now, after several wrong ones; unplug it, plug it in again, and try again"
            )
        case .pinBlocked:
            .init(
                .authentication,
                "the security key takes no PIN any more, after too many wrong ones; open the volume in another way. Resetting the key makes it usable again, but it will not open this volume"
            )
        case .unusablePIN: .init(.authentication, "the PIN of a security key has 1 to 63 bytes, none of them zero")
        case .noTouch: .init(.authentication, "the security key was not touched in time; try again")
        case .denied: .init(.authentication, "the request was refused at the security key")
        case .noAnswer:
            .init(.authentication, "the security key did not answer in time, or was unplugged; try again")
        case .badAnswer(let what):
            .init(
                .failure, "the security key gave an answer that is not valid (\(what)); try again, or use another key")
        case .memory(let error): ErrorMessages.memory(error)
        }
    }

    private static func attempts(left: Int) -> String {
        switch left {
        case 0: "; it takes no PIN any more"
        case 1: "; after one more wrong one it takes no PIN any more"
        default: "; \(left) attempts are left"
        }
    }
}
