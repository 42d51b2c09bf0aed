// The loop of `protectfs secret service`: answers calls on the session bus, and tells when the volume is locked or unlocked.

import CLibrary
package import CommandSupport
import Control
import DBus
package import HostSystem
import SecretStore
package import VolumeFormat

/// Provides the secrets of one mount as the Secret Service (org.freedesktop.secrets), as long as the mount is there.
///
/// One thread does everything but asking for a passphrase. Nothing of an item is kept: each call reads the store, which
/// other programs change, too.
package final class SecretService {
    /// The name on the bus.
    static let name = "org.freedesktop.secrets"

    let bus: DBusConnection
    let store: SecretStore
    /// The class of new items.
    let newClass: ProtectionClass
    let prompts: UnlockPrompts
    /// The collection's label.
    let label: String
    private let mount: MountEntry
    private let control: ControlClient
    /// The states that were told last.
    private var told: VolumeStates
    /// False if not everything could be told. The next change tells everything then.
    private var isAllTold = true

    /// Takes the name on the session bus.
    ///
    /// - Parameter ask: asks for the passphrase and unlocks; nil if nothing is there to ask with.
    package init(
        _ mount: MountEntry, class newClass: ProtectionClass, ask: (@Sendable () -> Void)?
    ) throws(CommandFailure) {
        self.mount = mount
        self.newClass = newClass
        let path = mount.mountPoint
        store = SecretStore(mount)
        label = "\(HostPath(bytes: path.lastComponent.bytes))"
        prompts = UnlockPrompts(ask: ask)
        control = try DaemonConnection.connectProven(mount, path)
        let state = try Self.subscribe(control, path)
        let inactive = Self.read(AttributeName.inactiveState, of: path)
        told = VolumeStates(volume: state, inactive: inactive ?? state)
        bus = try Self.connect()
    }

    private static func subscribe(
        _ control: borrowing ControlClient, _ path: HostPath
    ) throws(CommandFailure) -> VolumeState {
        do throws(ControlError) { return try control.subscribe(wait: false) } catch {
            throw DaemonConnection.explain(error, path)
        }
    }

    private static func connect() throws(CommandFailure) -> DBusConnection {
        let bus: DBusConnection
        let isTaken: Bool
        do throws(DBusError) {
            bus = try DBusConnection(.session)
            isTaken = try !bus.take(name)
        } catch {
            throw .init(.failure, "no session bus: \(error.message); start this in a desktop session or as a user unit")
        }
        if isTaken {
            throw .init(
                .failure,
                "another program provides \(name) on this bus, such as gnome-keyring-daemon or KWallet; end it first")
        }
        return bus
    }

    /// Runs until the mount or the bus ends.
    package func run() throws(CommandFailure) -> ExitCode {
        let exports = DBusExports(
            { [unowned self] path in interfaces(at: path) }, children: { [unowned self] path in children(of: path) })
        while true {
            do throws(DBusError) {
                while let message = try bus.next() {
                    // Any call may have a secret in it.
                    try message.markSensitive()
                    _ = try exports.answer(message, on: bus)
                }
                var entries = [bus.pollEntry, control.pollEntry, prompts.pollEntry]
                PollEntry.wait(&entries, until: bus.deadline)
                if entries[1].isReady, try !takeEvent() { return .success }
                if entries[2].isReady { try completePrompts() }
            } catch {
                if error.isDisconnected { throw .init(.failure, "the session bus has ended") }
                Output.error("\(error)")
            }
        }
    }

    // MARK: the volume

    /// The states of the volume now. The attributes are true as soon as a lock or unlock has returned; the event comes later.
    var states: VolumeStates {
        guard let volume = Self.read(AttributeName.state, of: mount.mountPoint),
            let inactive = Self.read(AttributeName.inactiveState, of: mount.mountPoint)
        else { return isMounted ? told : VolumeStates(.locked) }
        return VolumeStates(volume: volume, inactive: inactive)
    }

    private static func read(_ attribute: StaticString, of mountPoint: HostPath) -> VolumeState? {
        guard let bytes = try? ExtendedAttribute.read("\(attribute)", of: mountPoint) else { return nil }
        return VolumeState(attributeValue: String(decoding: bytes, as: UTF8.self))
    }

    /// Whether the volume is still mounted. A lazy unmount leaves the plain directory there, and its daemon running.
    private var isMounted: Bool {
        (try? FileStatus.read(mount.mountPoint)).map { UInt64($0.st_dev) == mount.deviceNumber } ?? false
    }

    /// Refuses to write where the volume is not: a secret would be stored in plaintext below it.
    func requireMount() throws(DBusError) {
        guard isMounted else { throw .isLocked }
    }

    /// Whether secrets of a class cannot be read in these states.
    static func isLocked(_ protectionClass: ProtectionClass, in states: VolumeStates) -> Bool {
        !Access.isAllowed(.open, class: protectionClass, state: states[protectionClass])
    }

    /// Whether the collection counts as locked: secrets of the default class cannot be read.
    var isLocked: Bool { Self.isLocked(.complete, in: states) }

    /// Locks the volume. Programs that asked for it get the grace time, and the caller waits.
    func lock() throws(DBusError) {
        do throws(CommandFailure) {
            let client = try DaemonConnection.connect(mount, mount.mountPoint)
            _ = try DaemonConnection.call(mount.mountPoint) { () throws(ControlError) in try client.lock() }
        } catch {
            throw .failed(error.message)
        }
    }

    /// Takes an event of the mount. False if the mount has ended.
    private func takeEvent() throws(DBusError) -> Bool {
        var now = told
        do throws(ControlError) {
            switch try control.nextEvent(timeout: 30) {
            case .locked: now.volume = .locked
            case .sweeping: now.volume = .sweeping
            case .inactive: now.inactive = .locked
            case .unlocked, .firstUnlock: now = VolumeStates(.unlocked)
            case .willLock, .willUnlock: return true
            }
        } catch .timedOut {
            return true
        } catch .closed {
            Output.note("the mount has ended")
            return false
        } catch {
            Output.error(DaemonConnection.explain(error, mount.mountPoint).message)
            return false
        }
        let before = told
        told = now
        let tellsAll = !isAllTold
        isAllTold = false
        try tell(from: before, to: now, tellsAll)
        isAllTold = true
        return true
    }

    /// Tells everybody which objects are locked or unlocked now; without `tellsAll`, only those that have changed.
    private func tell(from before: VolumeStates, to now: VolumeStates, _ tellsAll: Bool) throws(DBusError) {
        func change(_ protectionClass: ProtectionClass) -> Bool? {
            let value = Self.isLocked(protectionClass, in: now)
            return !tellsAll && value == Self.isLocked(protectionClass, in: before) ? nil : value
        }
        if let value = change(.complete) {
            try bus.tellChange(ServicePath.collection.text, Self.collectionInterface, [("Locked", .bool(value))])
            try tellOfCollection("CollectionChanged")
        }
        for item in try items() {
            guard let value = change(item.protectionClass) else { continue }
            try bus.tellChange(item.object.text, Self.itemInterface, [("Locked", .bool(value))])
        }
    }

    // MARK: items

    func items() throws(DBusError) -> [SecretItem] {
        try SecretError.explained { () throws(SecretError) in try store.list(SecretQuery()).items }
    }

    /// The item with this name.
    func item(_ name: String) throws(DBusError) -> SecretItem {
        let found = try SecretError.explained { () throws(SecretError) in try store.item(named: name) }
        guard let found else { throw .noSuchObject }
        return found
    }

    /// Replaces an item by `changed`, with its present secret.
    func change(_ item: SecretItem, to changed: SecretItem) throws(DBusError) {
        try requireMount()
        try SecretError.explained { () throws(SecretError) in
            try store.update(item, to: changed)
        }
        try tell("ItemChanged", changed)
    }

    // MARK: signals

    /// Tells of an item that was made, changed or removed.
    func tell(_ signal: String, _ item: SecretItem) throws(DBusError) {
        let message = try bus.signal(ServicePath.collection.text, Self.collectionInterface, signal)
        try message.append(.path(ServicePath.item(item.name).text))
        try bus.send(message)
        guard signal != "ItemChanged" else { return }
        let all = DBusValue.paths(try items().map(\.object.text))
        try bus.tellChange(ServicePath.collection.text, Self.collectionInterface, [("Items", all)])
    }

    private func tellOfCollection(_ signal: String) throws(DBusError) {
        let message = try bus.signal(ServicePath.root, Self.serviceInterface, signal)
        try message.append(.path(ServicePath.collection.text))
        try bus.send(message)
    }

    /// Tells the clients that wait, each whatever becomes of the others.
    private func completePrompts() throws(DBusError) {
        for prompt in prompts.finish() {
            let isTold = try attempt { () throws(DBusError) in try complete(prompt) }
            if !isTold { _ = try attempt { () throws(DBusError) in try complete(prompt, isDismissed: true) } }
        }
    }

    /// False if it fails, which the log says. Throws only if the bus has ended.
    private func attempt(_ body: () throws(DBusError) -> Void) throws(DBusError) -> Bool {
        do throws(DBusError) { try body() } catch {
            if error.isDisconnected { throw error }
            Output.error("\(error)")
            return false
        }
        return true
    }

    /// Tells a prompt's client which of its objects are unlocked. Without any, the prompt counts as dismissed.
    func complete(_ prompt: UnlockPrompts.Prompt, isDismissed: Bool = false) throws(DBusError) {
        let open = isDismissed ? [] : try unlocked(prompt.objects)
        let message = try bus.signal(ServicePath.prompt(prompt.number).text, Self.promptInterface, "Completed")
        try message.append([.bool(open.isEmpty), .variant(.paths(open))])
        try message.address(to: prompt.client)
        try bus.send(message)
    }
}
